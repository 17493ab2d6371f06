"""Hypothesis strategies for tests of programs that speak Kafka's protocol: clients, brokers, proxies, tools.

| strategy | draws |
|---|---|
| `messages("FetchRequest", 17)` | a message as that version can carry it |
| `messages("FetchRequest")`, `requests()`, `responses()`, `api_messages()` | a `Versioned`: message and version |
| `record_batches()` | an `EncodedBatch`: bytes of magic 0, 1 or 2, and the records that they must decode to |
| `records_blobs()` | a `RecordsBlob`: several batches as in a Fetch response, perhaps with a cut one at the end |
| `frames()` | a `Frame`: size prefix, header and body of a request or a response |
| `connections()` | a `ConnectionTraffic`: the requests of one client, their responses, and both streams in pieces |
| `split(data)` | the bytes in pieces |
| `fault_scripts()`, `broker_events()` | `BrokerEvent`s, which a test plays on an `EmbeddedKafka` |
| `mutated(strategy)` | a `Mutated`: bytes of any of the above with damage, mostly to lengths and counts |

`ConnectionMachine` is a stateful test of the client's side of a connection: anything that frames and correlates.

    from hypothesis import given
    from kafwire.testing.strategies import mutated, requests

    @given(mutated(requests(["Metadata"])))
    def test_damaged_requests(damaged):
        message, version = damaged.origin
        try:
            my_parser(damaged, version)
        except MyProtocolError:
            pass

Examples shrink towards defaults, empty lists, the first API by name and undamaged bytes. A failing example prints only
values that differ from the defaults. The package needs hypothesis, which `kafwire[testing]` brings.
"""

try:
    import hypothesis as _hypothesis
except ImportError as error:
    raise ImportError(
        'kafwire.testing.strategies needs hypothesis: pip install "kafwire[testing]", or hypothesis itself',
        name="hypothesis",
    ) from error

from kafwire.testing.strategies.batches import (
    EncodedBatch,
    ExpectedRecord,
    RecordsBlob,
    record_batches,
    records_blobs,
)
from kafwire.testing.strategies.broker_faults import BrokerEvent, broker_events, fault_scripts
from kafwire.testing.strategies.frames import ConnectionTraffic, Frame, connections, frames, split
from kafwire.testing.strategies.machine import ConnectionAdapter, ConnectionMachine, Fault
from kafwire.testing.strategies.messages import Versioned, api_messages, messages, requests, responses
from kafwire.testing.strategies.mutations import Mutated, mutated
from kafwire.testing.strategies.wire import Place, Wire, encoded

__all__ = [
    "BrokerEvent",
    "ConnectionAdapter",
    "ConnectionMachine",
    "ConnectionTraffic",
    "EncodedBatch",
    "ExpectedRecord",
    "Fault",
    "Frame",
    "Mutated",
    "Place",
    "RecordsBlob",
    "Versioned",
    "Wire",
    "api_messages",
    "broker_events",
    "connections",
    "encoded",
    "fault_scripts",
    "frames",
    "messages",
    "mutated",
    "record_batches",
    "records_blobs",
    "requests",
    "responses",
    "split",
]

del _hypothesis
