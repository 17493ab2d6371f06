"""The embedded broker with handlers of a test, for what only a native connection does: the I/O thread, ways past it.

    with ServedKafka() as kafka:
        kafka.create_topic("t")
        with kafwire.Producer(kafka.bootstrap) as producer:
            producer.send("t", b"v").result(10)

One broker, in a thread of its own. Handlers run in that thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from kafwire.broker.embedded import EmbeddedKafka
from kafwire.broker.frames import write_response
from kafwire.broker.request import HANG_UP, LATER, Request, Response
from kafwire.testing.simulation.calls import HANGUP, NEVER

Handler = Callable[[Request], Any]
SIZE_BYTES = 4


class ServedKafka(EmbeddedKafka):
    """One broker on a port of this machine."""

    def __init__(self) -> None:
        super().__init__()
        self.handlers: dict[str, list[Handler]] = {}
        self.received: Counter[int] = Counter()  # bytes, by connection
        self.sent: Counter[int] = Counter()
        self.state.interceptors.append(self._intercept)

    def on(self, api: str, handler: Handler) -> None:
        """Ask `handler` before the broker for responses to `api`, from the next request on."""
        self.ask(lambda _: self.handlers.setdefault(api, []).insert(0, handler))

    def off(self, api: str) -> None:
        """Leave `api` to the broker again."""
        self.ask(lambda _: self.handlers.pop(api, None))

    def _intercept(self, request: Request) -> Response | None:
        """See `Interceptor`."""
        number = request.connection.number

        def count(response: Response) -> Response:
            if response is not HANG_UP:
                self.sent[number] += SIZE_BYTES + len(write_response(request, response))
            return response

        self.received[number] += SIZE_BYTES + request.size
        request.edits.append(count)
        for handler in self.handlers.get(request.name, ()):
            response = handler(request)
            if response is not None:
                return {NEVER: LATER, HANGUP: HANG_UP}[response] if response in (NEVER, HANGUP) else response
        return None
