"""The port before one broker: it accepts or refuses connections, and owns the accepted ones."""

import math
import selectors
import socket
from collections.abc import Callable

from kafwire.testing.faults.conversation import Conversation, Stage
from kafwire.testing.faults.kinds import BlackHole, Throttle
from kafwire.testing.faults.link import Link
from kafwire.testing.faults.reactor import Reactor

__all__ = ["HOST", "Front"]

HOST = "127.0.0.1"
_QUEUE = 512
_RETRY_ACCEPT_SECONDS = 0.1


class Front:
    """A broker's port. The reactor's thread calls everything but the constructor."""

    def __init__(
        self,
        reactor: Reactor,
        stage: Stage,
        broker: int,
        port: int,
        target: str,
        numbers: Callable[[], int],
        *,
        frames: bool = True,
        source_of: Callable[[int], int | None] | None = None,
    ) -> None:
        """Bind a port (0: any) for the server at `target`, "host:port". `numbers` numbers the connections.

        Without `frames`, faults of frames do not apply. `source_of` maps a client's port to the client.
        """
        host, _, target_port = target.rpartition(":")
        found = socket.getaddrinfo(host.strip("[]"), int(target_port), type=socket.SOCK_STREAM)
        self._family: int = found[0][0]
        self._target = found[0][4]
        self.broker = broker
        self.links: set[Link] = set()
        self._reactor = reactor
        self._stage = stage
        self._numbers = numbers
        self._frames = frames
        self._source_of = source_of
        self._severed: set[int] = set()
        self._conditions: list[tuple[BlackHole | Throttle, float]] = []
        self._up = True
        self._refused_until = -math.inf
        self._listening = False
        self._listener = _bound(port)
        self._port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        """The address at which clients find the broker."""
        return f"{HOST}:{self._port}"

    def update(self) -> None:
        """Listen, or refuse connections. The port stays bound: a bound socket that does not listen refuses."""
        refused = self._refused_until > self._reactor.now()
        if refused and self._refused_until < math.inf:
            self._reactor.later(self._refused_until, self._on_time)
        if self._up and not refused:
            if not self._listening:
                self._listener.listen(_QUEUE)
            self._listening = True
            self._reactor.watch(self._listener, selectors.EVENT_READ, self._on_client)
        elif self._listening:
            self._listening = False
            self._reactor.watch(self._listener, 0, self._on_client)
            self._listener.close()
            self._listener = _bound(self._port)

    def set_up(self, *, up: bool) -> None:
        """Accept connections to a running broker, or refuse them while it is down."""
        self._up = up
        self.update()

    def refuse(self, until: float) -> None:
        """Refuse connections until a time."""
        self._refused_until = until
        self.update()

    def condition(self, fault: BlackHole | Throttle, now: float, until: float) -> None:
        """Put all present and future connections under a black hole or throttle until a time."""
        if all(end <= now for _, end in self._conditions):
            self._conditions.clear()
        self._conditions.append((fault, until))
        for link in self.links:
            link.talk.condition(fault, now, until)
            self._reactor.later(now, link.pump)

    def sever(self, source: int) -> None:
        """Block all bytes to and from this client until `heal`. Its connections stay open; new ones are blocked too."""
        self._severed.add(source)
        now = self._reactor.now()
        for link in self.links:
            if link.source == source:
                link.talk.condition(BlackHole(), now, math.inf)
                self._reactor.later(now, link.pump)

    def heal(self) -> None:
        """End refusals, severed clients, black holes and throttles, those of single connections too."""
        self._severed.clear()
        self._conditions.clear()
        self.refuse(-math.inf)
        now = self._reactor.now()
        for link in self.links:
            link.talk.heal()
            self._reactor.later(now, link.pump)

    def close(self) -> None:
        """Close the port and all connections."""
        for link in list(self.links):
            link.close()
        self.links.clear()
        self._listener.close()

    def _on_time(self, _now: float) -> None:
        self.update()

    def _on_client(self, _events: int) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError:
                # Probably no descriptors are left: try again later, not in a busy loop.
                self._reactor.watch(self._listener, 0, self._on_client)
                self._reactor.later(self._reactor.now() + _RETRY_ACCEPT_SECONDS, self._on_time)
                return
            self._on_accepted(client)

    def _on_accepted(self, client: socket.socket) -> None:
        now = self._reactor.now()
        talk = Conversation(self.broker, self._numbers(), self._stage, frames=self._frames)
        try:
            link = Link(self._reactor, talk, client, self._family, self._target, self.links.discard)
        except OSError:  # no descriptor is left for the other side
            client.close()
            return
        self.links.add(link)
        if self._source_of is not None:
            link.source = self._source_of(client.getpeername()[1])
            if link.source in self._severed:
                talk.condition(BlackHole(), now, math.inf)
        for fault, until in self._conditions:  # in order, and expired ones too: a later one replaced an earlier one
            talk.condition(fault, now, until)
        talk.open(now)
        link.pump(now)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setblocking(False)
        bound.bind((HOST, port))
    except BaseException:
        bound.close()
        raise
    return bound
