"""A property-based fuzzer for any server that speaks Kafka's protocol; `kafwire fuzz` is its command.

    generate, oddities, damage    requests: valid, odd, and with damaged bytes; all from a seed
    scenarios                     requests that only make sense after others: a group's member, a session, a producer
    case, safety                  one unit of work, and the limits of its bytes
    connection, execute           one case on the wire, and its responses
    rules, judge                  the protocol's promises about responses, and the broken ones
    shrink, finds, campaign       finds made small, kept once each, written to files; the whole run

The fuzzer does not use kafwire's client: its connection is a blocking socket under full control.
"""

from kafwire.testing.fuzzer.campaign import Campaign, Options
from kafwire.testing.fuzzer.finds import Find
from kafwire.testing.fuzzer.replay import replay

__all__ = ["Campaign", "Find", "Options", "replay"]
