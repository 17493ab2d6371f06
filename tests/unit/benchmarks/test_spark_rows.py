"""Goals of the Spark benchmark."""

from benchmarks.spark.rows import ROWS, Goal, choose, quantile


def test_a_goal_compares_one_figure_of_two_contenders() -> None:
    found = {"a": {"rate": [3.0, 1.0, 2.0]}, "b": {"rate": [4.0]}}
    assert Goal("a", "rate", "b", least=0.5).judge(found) == (2.0, 2.0, True)
    assert Goal("a", "rate", "b", most=0.25, plus=0.5).judge(found) == (2.0, 1.5, False)
    assert Goal("a", "rate", "c", least=0.5).judge(found) is None
    assert Goal("a", "rate", "b", most=1.1, plus=15, at=0.99).as_text() == "a, rate p99 <= 1.1 x b + 15"
    assert quantile([float(each) for each in range(100)], 0.99) == 99.0


def test_rows_are_chosen_by_the_beginning_of_their_names() -> None:
    assert [row.name for row in choose(["write"], short=False)] == ["write-100", "write-1000"]
    assert len(choose([], short=False)) == len(ROWS) - 1
