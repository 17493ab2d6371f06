"""`cluster.partition_names`: how many partitions a message names."""

from kafwire.cluster.partition_names import NAMED, listed


def test_the_others_are_counted() -> None:
    names = [f"t-{number}" for number in range(NAMED + 1)]
    assert listed(names[:2]) == "t-0, t-1"
    assert listed(names[:NAMED]) == ", ".join(names[:NAMED])
    assert listed(names) == ", ".join(names[:NAMED]) + " and 1 more partitions"
