"""A judge of every request that a client gives to a connection, and of every response.

The judge knows nothing of kafwire's own code. Most rules hold during any fault of brokers and network. Rules about the
time of a request hold only while no fault lasts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Hashable
from typing import Any

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker.log.batch_header import read_header
from kafwire.protocol.framing import request_header_version
from kafwire.testing.simulation.conduct.batches import Batches
from kafwire.testing.simulation.conduct.fetching import Fetching
from kafwire.testing.simulation.conduct.lookups import COORDINATED, Lookups, coordinated_by
from kafwire.testing.simulation.conduct.sent import Notes, Sent, parts
from kafwire.testing.simulation.conduct.transactions import REQUESTS, Transactions, producer_of

_HEAD = struct.Struct(">hhi")
_READ = {"Produce", "Fetch", *COORDINATED}  # APIs whose requests are decoded
_SEARCHES = {"DescribeProducers", "Fetch"}
_LOOKUPS = {"Metadata", "FindCoordinator"}


class Conduct:
    """The conduct of all clients of a world.

    Args:
        clock: the time in seconds.
        calm_since: the time since which brokers and network have no fault.
        delivery_s: the least age at which a producer gives a batch up (`delivery_timeout_ms`).
    """

    def __init__(
        self,
        clock: Callable[[], float] = lambda: 0.0,
        calm_since: Callable[[], float] = lambda: 0.0,
        delivery_s: float = math.inf,
    ) -> None:
        self._kinds = dispatch.served()
        self._sent: dict[Hashable, dict[int, Sent]] = {}  # by connection and correlation id
        self._notes = Notes(clock, calm_since, delivery_s)
        self._batches = Batches(self._notes)
        self._transactions = Transactions(self._notes)
        self._fetching = Fetching(self._notes)
        self._lookups = Lookups(self._notes, self._batches.waiting_of)

    @property
    def violations(self) -> list[str]:
        """The broken rules, in words."""
        return self._notes.violations

    def sent(self, connection: Hashable, client: Hashable, node: int, frame: bytes) -> None:
        """Judge a request, without its size, that a client gives to a connection."""
        key, version, correlation_id = _HEAD.unpack_from(frame)
        its = self._kinds[key]
        kind = its.request_class
        message: Any = None
        if its.name in _READ:
            header = protocol.RequestHeader.plan(request_header_version(kind, version))
            _, used = header.decode_prefix(frame)
            message, _ = kind.plan(version).decode_prefix(memoryview(frame)[used:])
        sent = Sent(self._notes.number(), its.name, client, node, version, message)
        self._sent.setdefault(connection, {})[correlation_id] = sent
        if sent.name == "Metadata":
            self._lookups.looks_up(sent)
        elif sent.name == "Produce":
            self._produces(sent)
        elif sent.name == "Fetch":
            for place, data in parts(message.topics, "partitions", "partition"):
                self._lookups.asks(sent, place)
                self._fetching.fetches(sent, place, data.current_leader_epoch)
        for coordinated in coordinated_by(sent):
            self._lookups.asks(sent, coordinated)
        if sent.name in REQUESTS:
            self._transactions.sends(sent, self._batches.in_flight_of(producer_of(sent)[0]))

    def _produces(self, sent: Sent) -> None:
        for place, data in parts(sent.message.topic_data, "partition_data", "index"):
            self._lookups.asks(sent, place)
            header = read_header(data.records)
            if header.producer_id >= 0:
                self._batches.produces(sent, place, header)
                if header.is_transactional:
                    self._transactions.produces(sent, place, header)

    def on_response(self, connection: Hashable, correlation_id: int, response: Any) -> None:
        """Note a response that arrived at the client."""
        sent = self._sent.get(connection, {}).pop(correlation_id, None)
        if sent is None:
            return
        if sent.name == "Produce":
            for place, data in parts(response.responses, "partition_responses", "index"):
                self._lookups.led(sent, place, data)
                self._batches.produced(sent, place, data.error_code)
            self._batches.lost(sent)
        elif sent.name == "Fetch":
            self._fetching.fetched(sent, response)
            for place, data in parts(response.responses, "partitions", "partition_index"):
                self._lookups.led(sent, place, data)
        elif sent.name in _LOOKUPS:
            self._lookups.learn(sent, response)
        elif sent.name == "OffsetFetch":
            self._fetching.begins(sent.client)
        if sent.name in COORDINATED:
            self._lookups.coordinated(sent, response)
        if sent.name in REQUESTS:
            self._transactions.on_response(sent, response)
        if sent.name in _SEARCHES:
            self._batches.searched(sent.client)

    def closed(self, connection: Hashable) -> None:
        """Note that a connection ended on the client's side."""
        for sent in self._sent.pop(connection, {}).values():
            self._batches.lost(sent)
            if sent.name in REQUESTS:
                self._transactions.lost(sent)
            elif sent.name == "Metadata":
                self._lookups.lost(sent)
