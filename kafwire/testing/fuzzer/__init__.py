"""A property-based fuzzer for any server that speaks Kafka's protocol; `kafwire fuzz` is its command.

    generate, oddities, damage    what is sent: valid requests, odd ones, damaged bytes; all of it from a seed
    scenarios                     requests that only make sense after others: a group's member, a session, a producer
    case, safety                  one unit of work, and what of it a server may be sent
    connection, execute           one case on the wire, and what came back
    rules, judge                  what the protocol promises of an answer, and which promises were broken
    shrink, finds, campaign       finds made small, kept once each, written down; the whole run

Nothing here uses kafwire's client: the connection is a blocking socket under full control.
"""

from kafwire.testing.fuzzer.campaign import Campaign, Options
from kafwire.testing.fuzzer.finds import Find
from kafwire.testing.fuzzer.replay import replay

__all__ = ["Campaign", "Find", "Options", "replay"]
