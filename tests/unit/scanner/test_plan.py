"""`scanner.plan`: what a scan may fetch at once. Its behaviour is in `test_plan_fetching.py`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafwire.config import ScanConfig
from kafwire.scanner.plan import ScanBudget, scan_plan

SIZES = st.integers(1, 1 << 30)


def test_the_budget_is_that_of_the_options() -> None:
    config = ScanConfig.build({"bootstrap_servers": "a:1", "fetch_max_bytes": 300, "fetch_memory": 1000})
    budget = ScanBudget.of(config)
    assert (budget.limit, budget.fetch_max_bytes) == (1000, 300)


def test_a_scan_has_no_session_and_ends() -> None:
    plan = scan_plan(ScanConfig.build({"bootstrap_servers": "a:1", "client_rack": "r"}))
    assert not plan.strategy.sessions
    assert plan.ends
    assert plan.rack == "r"


@given(SIZES, SIZES, st.integers(0, 100), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_each_request_is_for_as_much_and_any_partition_may_fill_it(
    limit: int, fetch_max_bytes: int, broker_fetchers: int, free: int, batch_bytes: int
) -> None:
    budget = ScanBudget(limit, fetch_max_bytes, fetch_max_bytes, 0)
    need = budget.request_bytes(broker_fetchers, free)
    assert need == fetch_max_bytes
    assert budget.records_bytes(need) == need
    assert budget.partition_bytes(free, batch_bytes) == need
    assert not budget.is_full(1000, limit, 0)


@given(SIZES, SIZES, st.integers(0, 1 << 31), st.integers(0, 1 << 31))
def test_requests_fit_into_the_limit_but_for_the_only_one(
    limit: int, fetch_max_bytes: int, reserved: int, buffered: int
) -> None:
    budget = ScanBudget(limit, fetch_max_bytes, fetch_max_bytes, 0)
    budget.reserved = reserved
    fits = reserved + buffered + fetch_max_bytes <= limit
    assert budget.has_room(buffered, fetch_max_bytes) == (fits or reserved + buffered == 0)
