"""The run of clients in the simulated world, as each of its clients sees it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import random

    import kafwire
    from kafwire.testing.history import History
    from kafwire.testing.simulation.cluster import ClusterWorld
    from kafwire.testing.simulation.schedule import Load
    from kafwire.types import TopicPartition


class RunReaders(Protocol):
    """The readers of a run. `seen`: by reader and partition, the next offset."""

    seen: dict[tuple[str, TopicPartition], int]

    def consumer(self, name: str, isolation: str, **options: Any) -> kafwire.AsyncConsumer:
        """Return a consumer of this run; `options` override the run's own."""
        ...


class ClientRun(Protocol):
    """One run: its world, its load, and the notes of its clients. `say` writes a line of the timeline."""

    world: ClusterWorld
    load: Load
    history: History
    say: Callable[[str], None]
    chance: random.Random
    counts: Counter[str]
    problems: list[str]
    is_over: bool

    @property
    def readers(self) -> RunReaders:
        """The readers of the run."""
        ...

    async def watched(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a client; an error that it raises is a problem."""
        ...
