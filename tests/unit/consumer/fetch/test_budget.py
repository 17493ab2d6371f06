"""`consumer.fetch.budget`: a budget that is kept whatever comes, and shares of it."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafwire.consumer.fetch.budget import ENVELOPE, LEAST_SHARE, Budget

SIZES = st.integers(1, 1 << 30)
budgets = st.builds(Budget, SIZES, SIZES, SIZES, st.integers(1, 10))


@given(budgets, st.integers(1, 5), st.integers(0, 100), st.data())
def test_reserved_and_buffered_bytes_pass_the_limit_by_one_large_batch_at_most(
    budget: Budget, broker_fetchers: int, partitions: int, data: st.DataObject
) -> None:
    """Requests, responses no larger than they allowed but for one batch each, and reading, in any order."""
    in_flight: list[int] = []
    buffered: list[int] = []
    oversize = 0
    for _ in range(data.draw(st.integers(1, 30))):
        what = data.draw(st.sampled_from(["ask", "ask", "response", "large", "read"]))
        if what == "ask":
            need = budget.request_bytes(broker_fetchers, budget.free(sum(buffered), partitions))
            if len(in_flight) < broker_fetchers and budget.has_room(sum(buffered), need):
                in_flight.append(need)
                budget.reserved += need
        elif what in {"response", "large"} and in_flight:
            need = in_flight.pop(0)
            budget.reserved -= need
            size = data.draw(st.integers(0, need)) if what == "response" else need + data.draw(SIZES)
            oversize += max(0, size - need)
            buffered.append(size)
        elif buffered:
            buffered.pop(0)
        assert budget.reserved == sum(in_flight)
        assert sum(buffered) + budget.reserved <= budget.limit + oversize


@given(budgets, st.integers(0, 1 << 40))
def test_an_idle_budget_has_room_for_anything(budget: Budget, need: int) -> None:
    assert budget.has_room(0, need)
    budget.reserved = 1
    assert budget.has_room(0, need) == (1 + need <= budget.limit)
    budget.reserved = 0
    assert budget.has_room(1, need) == (1 + need <= budget.limit)


@given(budgets, st.integers(0, 1 << 31), st.integers(0, 1 << 31), st.integers(0, 5000))
def test_free_bytes_are_neither_reserved_nor_buffered(
    budget: Budget, reserved: int, buffered: int, partitions: int
) -> None:
    budget.reserved = reserved
    free = budget.free(buffered, partitions)
    assert 0 <= free <= max(0, budget.limit - reserved - buffered)
    assert budget.free(buffered, partitions + 1) <= free
    budget.reserved = 0
    assert budget.free(0, partitions) >= budget.limit // 2, "half of it is for the first partitions, however many"
    assert budget.free(0, 0) == budget.limit


@given(budgets, st.integers(0, 100), st.integers(0, 1 << 30), st.integers(0, 1 << 30))
def test_shares_are_within_their_limits(budget: Budget, broker_fetchers: int, free: int, batch_bytes: int) -> None:
    request = budget.request_bytes(broker_fetchers, free)
    assert 1 <= request <= budget.fetch_max_bytes
    assert request == 1 or 4 * max(1, broker_fetchers) * request <= budget.limit
    assert request <= max(LEAST_SHARE, free // 2)
    share, most = budget.partition_bytes(free, batch_bytes), min(budget.max_partition_bytes, budget.fetch_max_bytes)
    assert 1 <= share <= most
    assert share == most or share >= max(LEAST_SHARE, batch_bytes), "a usual batch fits"
    assert share <= max(LEAST_SHARE, free // 4, batch_bytes * 5 // 4)


@given(st.integers(0, 1 << 34), st.integers(0, 1 << 20))
@example(32_505_856, 1_048_576)
def test_shares_change_seldom(free: int, more: int) -> None:
    """Each that changes has to be said to the broker."""
    budget = Budget(1 << 40, 1 << 40, 1 << 40, 1)
    shares = {budget.partition_bytes(free + step) for step in (0, more // 2, more)}
    assert all(share == budget.partition_bytes(4 << share.bit_length()) or share == LEAST_SHARE for share in shares)
    assert max(shares) <= 2 * min(shares) + ENVELOPE or free < more


@given(budgets, st.integers(1, 20), st.integers(0, 1 << 30), st.integers(0, 1 << 31))
def test_a_buffer_is_full_by_responses_or_bytes_and_never_when_it_is_empty(
    budget: Budget, slices: int, size: int, free: int
) -> None:
    mark = max(LEAST_SHARE, free // 4)
    assert not budget.is_full(0, size, free)
    assert budget.is_full(slices, mark, free)
    assert budget.is_full(budget.max_prefetch, 0, free)
    assert budget.is_full(slices, size, free) == (slices >= budget.max_prefetch or size >= mark)


@given(
    limit=st.integers(1, 1 << 32),
    fetch_max_bytes=st.integers(1, 1 << 28),
    broker_fetchers=st.integers(0, 2000),
    free=st.integers(0, 1 << 32),
)
def test_requests_take_the_room_of_whole_buffers(
    limit: int, fetch_max_bytes: int, broker_fetchers: int, free: int
) -> None:
    budget = Budget(limit, fetch_max_bytes, 8 << 20, 4)
    room = budget.request_bytes(broker_fetchers, free)
    assert room & (room - 1) == 0, "buffers have powers of two"
    assert room <= fetch_max_bytes
    assert room <= max(1, limit // (4 * max(1, broker_fetchers)))
    assert 1 <= budget.records_bytes(room) <= room


@pytest.mark.parametrize("room", [1 << 20, 4 << 20, 8 << 20, 64 << 20])
def test_the_envelope_fits_into_the_room_beside_the_records(room: int) -> None:
    assert 16 << 10 <= room - Budget.records_bytes(room) <= 64 << 10
