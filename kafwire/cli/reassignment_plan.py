"""Chooses the brokers of partitions that are reassigned. Pure."""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TypeVar

__all__ = ["plan"]

P = TypeVar("P")


def plan(current: Mapping[P, Sequence[int]], brokers: Sequence[int], factor: int | None = None) -> dict[P, list[int]]:
    """Divide replicas evenly among brokers, with the fewest moves.

    A replica stays where it is, in its place in the list, unless its broker is not wanted or has its share already.

    Args:
        current: the brokers of each partition, the preferred leader first.
        brokers: the wanted brokers.
        factor: the number of replicas of each partition, at most that of the brokers; None: as many as it has.

    Returns:
        The brokers of each partition, the preferred leader first.

    Example:
        >>> plan({"a": [1], "b": [1], "c": [2]}, [1, 2, 3])
        {'a': [1], 'b': [3], 'c': [2]}
    """
    wanted = {place: len(replicas) if factor is None else factor for place, replicas in current.items()}
    most = ceil(sum(wanted.values()) / len(brokers))
    load = dict.fromkeys(brokers, 0)
    kept: dict[P, list[int]] = {}
    for place, replicas in current.items():
        stays = kept[place] = []
        for broker in replicas:
            if len(stays) < wanted[place] and load.get(broker, most) < most:
                stays.append(broker)
                load[broker] += 1
    for place, stays in kept.items():
        while len(stays) < wanted[place]:
            broker = min((each for each in load if each not in stays), key=load.__getitem__)
            stays.append(broker)
            load[broker] += 1
    return kept
