"""`FaultProxy`: the control of the proxies before a test's brokers, and the record of their faults."""

import math
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from types import TracebackType
from typing import Self, TypeVar

from kafwire.handles import refuse_copies
from kafwire.testing.faults.front import Front
from kafwire.testing.faults.kinds import BlackHole, Fault, Refuse, Reset, Throttle
from kafwire.testing.faults.reactor import Reactor
from kafwire.testing.faults.script import Decision, FaultEvent, FaultScript, Occasion, Rule

__all__ = ["FaultProxy"]

T = TypeVar("T")


class FaultProxy:
    """A proxy before brokers of this machine. A context manager; `KafkaCluster(proxies=True)` makes its own.

    The brokers must advertise `addresses`. For each request the proxy tries the rules in order, and injects the fault
    of the first that matches. One thread serves all brokers. The methods may be called from any other thread, and
    return when they are done.

    Args:
        targets: for each broker id the `host:port` at which it listens.
        rules: the rules.
        seed: the seed of all random choices; None draws one.
        ports: for each broker id the port to listen at; by default free ones.
        frames: parse frames. Without it bytes pass as they come, and no request meets a fault.
        source_of: maps a client's port to the client, for `sever`.

    Raises:
        OSError: when it starts: a port is taken, or a target's name is unknown.

    Example:
        >>> from kafwire.testing.faults import DropResponse, FaultProxy, Rule
        >>> with FaultProxy({1: cluster.direct}, [Rule(DropResponse(), api="ApiVersions", count=1)], seed=7) as proxy:
        ...     with kafwire.Client(proxy.bootstrap) as unlucky:
        ...         _ = unlucky.metadata()
        ...     [event.kind for event in proxy.events]
        ['DropResponse']
    """

    __reduce_ex__ = refuse_copies("they own connections and a thread; hand over `bootstrap`, which clients connect to")

    def __init__(
        self,
        targets: Mapping[int, str],
        rules: Iterable[Rule] = (),
        *,
        seed: int | None = None,
        ports: Mapping[int, int] | None = None,
        frames: bool = True,
        source_of: Callable[[int], int | None] | None = None,
    ) -> None:
        self._targets = dict(targets)
        self._ports = dict(ports or {})
        self._frames = frames
        self._source_of = source_of
        self._stage = _Stage(tuple(rules), seed)
        self._addresses: dict[int, str] = {}
        self._reactor: Reactor | None = None
        self._owner = os.getpid()

    # -- commands of a test

    def add(self, *rules: Rule) -> None:
        """Add rules, after the present ones.

        Args:
            rules: the rules.

        Example:
            >>> from kafwire.testing.faults import Delay, FaultProxy, Rule
            >>> with FaultProxy({1: cluster.direct}) as proxy:
            ...     proxy.add(Rule(Delay(0.01), api="Metadata"))
            ...     with kafwire.Client(proxy.bootstrap) as slowed:
            ...         _ = slowed.metadata()
            ...     proxy.events[0].kind
            'Delay'
        """

        def command() -> None:
            for rule in rules:
                self._stage.script.add(rule)

        self._call(command)

    def restart(self, *rules: Rule, seed: int | None = None) -> None:
        """Start again with these rules alone: faults end, events and counts are cleared, and time starts at 0.

        Connections stay. Delayed frames arrive when they are due.

        Args:
            rules: the rules.
            seed: the seed of all random choices; None draws one.
        """

        def command() -> None:
            self._stage.heal()
            for front in self._stage.fronts.values():
                for link in front.links:
                    link.talk.pardon()
            self._stage.begin(rules, seed)

        self._call(command)

    def play(self, fault: Reset | BlackHole | Throttle | Refuse, broker: int | None = None) -> None:
        """Inject a fault at once, on all open connections; a fault of a broker on the broker.

        Args:
            fault: `Reset`, `BlackHole`, `Throttle` or `Refuse`.
            broker: the broker's id; None takes all.

        Raises:
            TypeError: the fault is for a request or response: aim it with a `Rule`.
            KeyError: there is no such broker.

        Example:
            >>> from kafwire.testing.faults import FaultProxy, Reset
            >>> with FaultProxy({1: cluster.direct}) as proxy:
            ...     proxy.play(Reset())
        """
        if not isinstance(fault, Reset | BlackHole | Throttle | Refuse):
            message = f"{fault!r} is for a request or response: aim it with a Rule"
            raise TypeError(message)

        def command() -> None:
            fronts = self._stage.fronts
            for front in fronts.values() if broker is None else [fronts[broker]]:
                self._stage.play(fault, front)

        self._call(command)

    def sever(self, broker: int, source: int) -> None:
        """Let nothing through between a broker and a client, in both directions, until `heal`.

        Args:
            broker: the broker's id.
            source: the client, as `source_of` names it.
        """
        self._call(lambda: self._stage.fronts[broker].sever(source))

    def heal(self) -> None:
        """End black holes, throttles and refusals now.

        Delayed frames still arrive when they are due, and the rules stay.
        """
        self._call(self._stage.heal)

    def shut(self, broker: int) -> None:
        """Refuse connections to a broker that is down. Open ones end when the broker ends them.

        Args:
            broker: the broker's id.
        """
        self._call(lambda: self._stage.fronts[broker].set_up(up=False))

    def serve(self, broker: int) -> None:
        """Accept connections to a broker again.

        Args:
            broker: the broker's id.
        """
        self._call(lambda: self._stage.fronts[broker].set_up(up=True))

    # -- results for a test

    @property
    def seed(self) -> int:
        """The seed from which all random choices follow."""
        return self._stage.seed

    @property
    def addresses(self) -> dict[int, str]:
        """The address of each broker for clients, as `host:port`; from `start` on."""
        return dict(self._addresses)

    @property
    def bootstrap(self) -> str:
        """All `addresses`, separated by commas."""
        return ",".join(self._addresses.values())

    @property
    def events(self) -> list[FaultEvent]:
        """The faults that were injected so far, in order."""
        with self._stage.changed:
            return list(self._stage.events)

    @property
    def requests(self) -> Counter[tuple[int, str | None, str]]:
        """The number of requests by (broker, client id, API); connections count by (broker, None, `CONNECT`)."""
        with self._stage.changed:
            return Counter(self._stage.requests)

    def wait_for(self, condition: Callable[[Sequence[FaultEvent]], object], timeout: float = 10.0) -> list[FaultEvent]:
        """Wait until a condition on the events holds.

        Args:
            condition: a function of the events so far.
            timeout: seconds to wait.

        Returns:
            The events.

        Raises:
            TimeoutError: the condition did not hold in time.
        """
        stage = self._stage
        with stage.changed:
            if not stage.changed.wait_for(lambda: condition(stage.events), timeout):
                message = f"not within {timeout:g} s; the events so far: {stage.events}"
                raise TimeoutError(message)
            return list(stage.events)

    # -- life cycle

    @property
    def running(self) -> bool:
        """True if clients are served: from `start` to `close`."""
        return self._reactor is not None and self._reactor.running

    def start(self) -> None:
        """Listen before all brokers, which need not run yet.

        Raises:
            OSError: a port is taken, or a target's name is unknown.
        """
        stage = self._stage
        reactor = self._reactor = Reactor("fault proxy", stage.close)
        numbers = count(1)
        stage.now = reactor.now
        try:
            for broker, target in self._targets.items():
                port = self._ports.get(broker, 0)
                front = stage.fronts[broker] = Front(
                    reactor,
                    stage,
                    broker,
                    port,
                    target,
                    lambda: next(numbers),
                    frames=self._frames,
                    source_of=self._source_of,
                )
                self._addresses[broker] = front.address
        except BaseException:
            stage.close()
            reactor.start()
            self.close()
            raise
        stage.began = reactor.now()
        reactor.start()
        self._call(stage.open)

    def close(self) -> None:
        """Close all ports and connections, the clients' by reset. Does nothing in a forked child."""
        if self._reactor is not None and os.getpid() == self._owner:
            self._reactor.end()
            self._reactor = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            error.add_note(f"Faults were played from seed {self.seed}")
        self.close()

    def _call(self, command: Callable[[], T]) -> T:
        return command() if self._reactor is None else self._reactor.call(command)


class _Stage:
    """The shared state of all conversations. Only `events` and `requests` may leave the reactor's thread."""

    def __init__(self, rules: Sequence[Rule], seed: int | None) -> None:
        self.now: Callable[[], float] = lambda: 0.0
        self.fronts: dict[int, Front] = {}
        self.changed = threading.Condition()
        self.events: list[FaultEvent] = []
        self.requests: Counter[tuple[int, str | None, str]] = Counter()
        self.begin(rules, seed)

    def begin(self, rules: Sequence[Rule], seed: int | None) -> None:
        """Clear events and counts, and use these rules."""
        self.seed = chosen = random.SystemRandom().randrange(1 << 32) if seed is None else seed
        self.script = FaultScript(lambda name: random.Random(f"{chosen}/{name}").random)
        for rule in rules:
            self.script.add(rule)
        self.began = self.now()
        with self.changed:
            self.events.clear()
            self.requests.clear()

    def open(self) -> None:
        """Let clients in."""
        for front in self.fronts.values():
            front.update()

    def heal(self) -> None:
        """End all lasting faults."""
        for front in self.fronts.values():
            front.heal()

    def close(self) -> None:
        """Close all ports and connections."""
        for front in self.fronts.values():
            front.close()
        self.fronts.clear()

    def play(self, fault: Reset | BlackHole | Throttle | Refuse, front: Front) -> None:
        """Apply a fault to a broker, or to each of its connections."""
        now = self.now()
        if isinstance(fault, Refuse) or (not isinstance(fault, Reset) and fault.scope == "broker"):
            self.played(Occasion(front.broker, 0, ""), fault, now)
            self.spread(fault, front.broker, now)
            return
        for link in [link for link in front.links if not link.talk.over]:
            self.played(Occasion(front.broker, link.talk.number, ""), fault, now)
            link.talk.impose(fault, now)
            link.pump(now)

    # -- the `Stage` of conversations

    def decide(self, occasion: Occasion, now: float) -> Decision | None:
        """Return the fault for this request or connection, or None."""
        with self.changed:
            self.requests[occasion.broker, occasion.client_id, occasion.api] += 1
        return self.script.decide(occasion, now - self.began)

    def give_back(self, decision: Decision) -> None:
        """Note that the fault could not be played."""
        self.script.give_back(decision)

    def played(self, occasion: Occasion, fault: Fault, now: float) -> None:
        """Record a fault that took effect."""
        event = FaultEvent(
            now,
            occasion.broker,
            occasion.connection,
            occasion.client_id,
            occasion.api,
            occasion.correlation_id,
            fault,
        )
        with self.changed:
            self.events.append(event)
            self.changed.notify_all()

    def spread(self, fault: Fault, broker: int, now: float) -> None:
        """Play a fault of a whole broker."""
        assert isinstance(fault, Refuse | BlackHole | Throttle)
        until = math.inf if fault.seconds is None else now + fault.seconds
        if isinstance(fault, Refuse):
            self.fronts[broker].refuse(until)
        else:
            self.fronts[broker].condition(fault, now, until)
