"""The split of a batch that the broker refused: after which errors, and into which parts. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError


def part_starts(
    count: int, code: int, refused: Mapping[int, KafkaError], *, is_transactional: bool
) -> list[int] | None:
    """Return the index of the first record of each part; None: the batch is not split.

    A batch that is too large becomes two halves (MESSAGE_TOO_LARGE). Each refused record becomes a part of its own
    (KIP-467). A transaction with a refused record cannot be committed, so its other records are not sent again.

    Args:
        count: the number of records.
        code: the batch's error code.
        refused: the errors of single records, by index.
        is_transactional: whether the batch belongs to a transaction.
    """
    if 0 < len(refused) < count and not is_transactional:
        return sorted({0, *refused, *(index + 1 for index in refused if index + 1 < count)})
    if code == ErrorCode.MESSAGE_TOO_LARGE and count > 1 and not refused:
        return [0, (count + 1) // 2]
    return None
