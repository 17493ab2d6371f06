"""The measurements of the strategies' benchmark, and their turns. No processes."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.rounds import ContenderError

STRATEGIES: Mapping[str, Mapping[str, str]] = {
    "hybrid": {"conf.fetch_strategy": "hybrid"},
    "per_partition": {"conf.fetch_strategy": "per_partition"},
    "per_node": {"conf.fetch_strategy": "per_node"},
    "single_socket": {"conf.single_socket": "true"},
}
PARTITIONS = (1, 10, 100, 1000)
SCENARIOS = ("flood", "quiet", "flooded", "slow")
NEED_ANOTHER = {"flooded", "slow"}

Run = Callable[[str, int, str], Mapping[str, float]]


def measure(
    run: Run, strategies: Sequence[str], partitions: Sequence[int], rounds: int, progress: Callable[[str], None]
) -> list[dict[str, Any]]:
    """All cells, each with the figures of its rounds; one that fails once is out, with the reason.

    Strategies take turns, so that a busy moment of the machine does not meet one of them only.
    """
    cells: dict[tuple[str, int, str], dict[str, Any]] = {}
    for count in partitions:
        for scenario in SCENARIOS:
            if count == 1 and scenario in NEED_ANOTHER:
                continue
            for number in range(rounds):
                turn = number % len(strategies)
                for strategy in [*strategies[turn:], *strategies[:turn]]:
                    empty = {"strategy": strategy, "partitions": count, "scenario": scenario, "rounds": [], "error": ""}
                    cell = cells.setdefault((strategy, count, scenario), empty)
                    if cell["error"]:
                        continue
                    try:
                        cell["rounds"].append(dict(run(strategy, count, scenario)))
                    except ContenderError as error:
                        cell["error"] = str(error)
                    found = cell["error"] or ", ".join(f"{name} {one:.4g}" for name, one in cell["rounds"][-1].items())
                    progress(f"{scenario} x{count} {strategy}: {found}")
    return list(cells.values())
