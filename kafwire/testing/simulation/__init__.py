"""A simulated world for clients: a Kafka cluster, its network and its time, in one thread.

    from kafwire.testing.simulation import World

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("t", b"value").result()

Only the client is real. The world opens no socket, starts no thread and waits for no real time. The same seed gives the
same run.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names
from kafwire.testing.simulation.calls import DROPPED, HANGUP, NEVER, Call, Response
from kafwire.testing.simulation.clock import Stuck
from kafwire.testing.simulation.scripted import World

__all__ = ["DROPPED", "HANGUP", "NEVER", "Call", "Response", "Stuck", "World"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, {}, renamed={"Answer": "Response"})
