"""Into which parts a refused batch is split."""

from __future__ import annotations

import pytest

from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError
from kafwire.producer.outcome.split import part_starts

TOO_LARGE, INVALID = ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("count", "code", "refused", "is_transactional", "starts"),
    [
        (2, TOO_LARGE, [], False, [0, 1]),
        (5, TOO_LARGE, [], True, [0, 3]),
        (1, TOO_LARGE, [], False, None),
        (5, INVALID, [], False, None),
        (5, INVALID, [0], False, [0, 1]),
        (5, INVALID, [1, 2], False, [0, 1, 2, 3]),
        (5, INVALID, [4], False, [0, 4]),
        (2, INVALID, [0, 1], False, None),
        (5, INVALID, [4], True, None),
        (5, TOO_LARGE, [2], False, [0, 2, 3]),
        (5, TOO_LARGE, [2], True, None),
    ],
)
def test_the_starts_of_the_parts(
    count: int, code: int, refused: list[int], is_transactional: bool, starts: list[int] | None
) -> None:
    errors = dict.fromkeys(refused, KafkaError("refused"))
    assert part_starts(count, code, errors, is_transactional=is_transactional) == starts
