"""A simulated world for clients: a Kafka cluster, the network to it and the time they live in, in one thread.

    from kafwire.testing.simulation import World

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("t", b"value").result()

Nothing is real in it but the client: no socket, no other thread, no second that passes. The same seed gives the same
run.
"""

from kafwire.testing.simulation.clock import Stuck
from kafwire.testing.simulation.kafka import DROPPED, HANGUP, NEVER, Answer, Call
from kafwire.testing.simulation.world import World

__all__ = ["DROPPED", "HANGUP", "NEVER", "Answer", "Call", "Stuck", "World"]
