"""Which faults come when, as a pure function of the seed: an endless list of episodes. No clock, no sockets.

    for episode in episodes(seed): ...              # begin, faults for `seconds`, healed for `rest`

An episode has rules for the proxies, or does something to nodes, or both. The theme of an episode is dealt from
shuffled decks, so a short run meets every kind once before any comes twice. One node at a time is struck, rules leave
most requests alone, and what lasts ends: with 3 replicas and min.insync.replicas=2 something can always be
acknowledged.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from kafwire.testing.faults import (
    CONNECT,
    BlackHole,
    Corrupt,
    Cut,
    Delay,
    DropResponse,
    Duplicate,
    Hold,
    Refuse,
    Reorder,
    Reset,
    Rule,
    Throttle,
)

T = TypeVar("T")

Blow = Literal["kill", "pause", "restart", "part"]
Target = Literal["leader", "transactions", "offsets", "controller", "node"]

BROKERS = (1, 2, 3)
TRANSACTIONAL = (
    *("InitProducerId", "FindCoordinator", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
)
# The requests that clients send most are aimed at twice as often.
_AIMS: tuple[str | tuple[str, ...] | None, ...] = ("Produce", "Produce", TRANSACTIONAL, TRANSACTIONAL, "Fetch", None)


@dataclass(frozen=True, slots=True)
class Strike:
    """A fault of a node for `seconds`: SIGKILL, SIGSTOP, an orderly stop, or a partition from the other nodes.

    A partition does not part the node from clients. `target`: the leader of a topic's partition, both chosen by
    `number`, which wraps around; the coordinator of transactions or of groups; the active controller; or the node
    `number`.
    """

    blow: Blow
    target: Target
    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ClientBlow:
    """SIGKILL, or SIGSTOP for `seconds`, to a client by a number that wraps; `at` seconds after the episode began."""

    at: float
    blow: Literal["kill", "pause"]
    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Episode:
    """Faults for `seconds` at least, then `rest` seconds without any.

    `rules` are those of the proxies, drawn from `seed`. `strikes` come one after the other, each when the cluster is
    whole again; `clients` are struck meanwhile.
    """

    number: int
    name: str
    seed: int
    seconds: float
    rest: float
    rules: tuple[Rule, ...]
    strikes: tuple[Strike, ...]
    clients: tuple[ClientBlow, ...] = ()


def episodes(seed: int) -> Iterator[Episode]:
    """All episodes of a seed, in order."""
    chance = random.Random(f"{seed}/episodes")
    clients = random.Random(f"{seed}/clients")
    sorts = _dealt(chance, ("network", "node", "both", "network", "both", "network"))
    networks = _dealt(chance, tuple(_NETWORK))
    nodes = _dealt(chance, tuple(_NODES))
    number = 0
    while True:
        sort = next(sorts)
        rules: list[Rule] = []
        strikes: tuple[Strike, ...] = ()
        names = []
        if sort != "node":
            for name in [next(networks) for _ in range(chance.choice((1, 2) if sort == "both" else (2, 3)))]:
                names.append(name)
                rules.append(_NETWORK[name](chance))
        if sort != "network":
            name = next(nodes)
            names.append(name)
            strikes = tuple(_NODES[name](chance))
        yield Episode(
            number=number,
            name=", ".join(names),
            seed=chance.randrange(1 << 32),
            seconds=round(chance.uniform(4, 9), 3) if rules else 0.0,
            rest=round(chance.uniform(2, 5), 3),
            rules=tuple(rules),
            strikes=strikes,
            clients=tuple(_clients(clients)),
        )
        number += 1


def _clients(chance: random.Random) -> Iterator[ClientBlow]:
    """Up to three blows; a pause may be longer than a transaction may be open."""
    for _ in range(chance.choice((0, 1, 1, 2, 3))):
        blow: Literal["kill", "pause"] = chance.choice(("kill", "kill", "pause"))
        seconds = round(chance.choice((chance.uniform(0.1, 3), chance.uniform(8, 14))), 3) if blow == "pause" else 0.0
        yield ClientBlow(round(chance.uniform(0, 8), 3), blow, chance.randrange(100), seconds)


def _dealt(chance: random.Random, deck: Sequence[T]) -> Iterator[T]:
    """The deck, shuffled, again and again."""
    while True:
        cards = list(deck)
        chance.shuffle(cards)
        yield from cards


# -- the network


def _anybody(chance: random.Random) -> int | None:
    """All brokers, or one."""
    return chance.choice((None, None, None, *BROKERS))


def _rule(
    fault: Callable[[random.Random], object],
    *,
    aims: Sequence[str | tuple[str, ...] | None] = _AIMS,
    probability: tuple[float, float] = (0.2, 0.5),
    most: int | None = 30,
) -> Callable[[random.Random], Rule]:
    def draw(chance: random.Random) -> Rule:
        return Rule(
            fault(chance),  # type: ignore[arg-type]
            api=chance.choice(aims),
            broker=_anybody(chance),
            probability=round(chance.uniform(*probability), 3),
            count=most,
        )

    return draw


_RECORDS = ("Produce",)
_NETWORK: dict[str, Callable[[random.Random], Rule]] = {
    "late responses": _rule(lambda _: Delay((0.02, 1.0))),
    "late requests": _rule(lambda _: Delay((0.02, 1.5), "request")),
    "dropped responses": _rule(lambda _: DropResponse()),
    "missing responses": _rule(lambda _: DropResponse(reset=False), probability=(0.02, 0.1), most=4),
    "resets": _rule(lambda _: Reset()),
    "cut responses": _rule(lambda chance: Cut(reset=chance.random() < 0.5)),
    "cut requests": _rule(lambda chance: Cut(way="request", reset=chance.random() < 0.5)),
    "damaged records": _rule(lambda _: Corrupt("request"), aims=_RECORDS),
    "damaged responses": _rule(lambda _: Corrupt(), aims=("Fetch",)),
    "black holes": _rule(
        lambda chance: BlackHole(
            chance.choice(("request", "response", "both")), seconds=round(chance.uniform(1, 8), 3)
        ),
        probability=(0.02, 0.1),
        most=3,
    ),
    "silent broker": _rule(
        lambda chance: BlackHole("both", seconds=round(chance.uniform(1, 6), 3), scope="broker"), most=1
    ),
    "throttles": _rule(
        lambda chance: Throttle(chance.choice((5_000.0, 50_000.0, 300_000.0)), seconds=round(chance.uniform(1, 5), 3)),
        most=6,
    ),
    "held requests": _rule(lambda _: Hold((0.05, 4.0)), aims=("Produce", TRANSACTIONAL)),
    "requests twice": _rule(
        lambda _: Duplicate("request"),
        # A second InitProducerId would fence the producer that sent the first.
        aims=("Produce", "Fetch", ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")),
        most=20,
    ),
    "responses twice": _rule(lambda _: Duplicate(), most=5),
    "responses out of order": _rule(lambda _: Reorder(0.5), most=5),
    "refused connections": _rule(
        lambda chance: Refuse(seconds=round(chance.uniform(0.5, 4), 3)), probability=(0.02, 0.1), most=2
    ),
    "resets at once": _rule(lambda _: Reset(), aims=(CONNECT,), probability=(0.2, 0.6), most=10),
}

# -- the nodes


def _one(blow: Blow, target: Sequence[Target], seconds: tuple[float, float]) -> Callable[[random.Random], list[Strike]]:
    def draw(chance: random.Random) -> list[Strike]:
        return [Strike(blow, chance.choice(target), chance.randrange(100), round(chance.uniform(*seconds), 3))]

    return draw


def _leaders(chance: random.Random) -> list[Strike]:
    blow: Blow = chance.choice(("kill", "pause"))
    return [Strike(blow, "leader", chance.randrange(100), round(chance.uniform(1, 6), 3)) for _ in range(3)]


def _rolling(chance: random.Random) -> list[Strike]:
    return [Strike("restart", "node", number, 0.0) for number in chance.sample(BROKERS, len(BROKERS))]


_NODES: dict[str, Callable[[random.Random], list[Strike]]] = {
    "leader killed": _one("kill", ("leader",), (0, 8)),
    "leader paused": _one("pause", ("leader",), (1, 4)),
    "leader paused for long": _one("pause", ("leader",), (5, 20)),
    "node restarted": _one("restart", ("node", "leader"), (0, 5)),
    "transaction coordinator killed": _one("kill", ("transactions",), (0, 8)),
    "transaction coordinator paused": _one("pause", ("transactions",), (1, 12)),
    "group coordinator killed": _one("kill", ("offsets",), (0, 5)),
    "controller killed": _one("kill", ("controller",), (0, 5)),
    "controller paused": _one("pause", ("controller",), (2, 10)),
    "leader parted": _one("part", ("leader",), (1, 15)),
    "coordinator parted": _one("part", ("transactions", "offsets"), (1, 15)),
    "controller parted": _one("part", ("controller",), (1, 12)),
    "leaders one after another": _leaders,
    "rolling restart": _rolling,
}
