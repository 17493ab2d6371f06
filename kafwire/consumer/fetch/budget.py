"""The memory budget of prefetching: its shares for requests and partitions.

The module is pure: it gets buffered bytes and returns sizes. `engine.py` applies them.
"""

from __future__ import annotations

from kafwire.lazy_dataclass import dataclass

# Bytes that each partition finds free, however much others have buffered: some small batches.
LEAST_SHARE = 16 << 10
ENVELOPE = 64 << 10  # bytes; more than a response has beside its records, unless it has thousands of partitions


@dataclass(slots=True)
class Budget:
    """The limit of bytes that are fetched and not decoded yet, and the shares of requests and partitions.

    Bytes are reserved before a request is sent. A response exceeds them by at most one batch: a broker returns one
    batch of the first partition with data, whatever its size.
    """

    limit: int
    fetch_max_bytes: int
    max_partition_bytes: int
    max_prefetch: int  # most responses in one partition's buffer
    reserved: int = 0

    # Shares depend on the free bytes, not only on the number of partitions: a busy partition among a thousand idle ones
    # may buffer much. Of several partitions with slow readers, each takes less than the one before, so that bytes are
    # left for all others.

    def free(self, buffered: int, partitions: int) -> int:
        """Return the free bytes, minus a reserve per partition."""
        kept = min(self.limit // 2, 2 * LEAST_SHARE * partitions)  # one share waits for its reader, one is in flight
        return max(0, self.limit - self.reserved - buffered - kept)

    def request_bytes(self, broker_fetchers: int, free: int) -> int:
        """Return the most bytes of one request: its part of a quarter of the budget, and at most half the free bytes.

        The size is a power of two, as buffers are: a half-empty buffer takes the memory of a full one.
        """
        return _power(
            min(self.fetch_max_bytes, self.limit // (4 * max(1, broker_fetchers)), max(LEAST_SHARE, free // 2))
        )

    @staticmethod
    def records_bytes(room: int) -> int:
        """Return the bytes of records to request, so that the response's envelope fits into `room` too."""
        return max(1, room - min(room // 64, ENVELOPE))

    def partition_bytes(self, free: int, batch_bytes: int = 0) -> int:
        """Return the most bytes of one partition in one response: a quarter of the free bytes.

        It is at least a usual batch (`batch_bytes`): less would bring no records. It is derived from a power of two, as
        each change has to be sent to the broker; a little less, as the response's envelope lies in the same buffer.
        """
        share = max(LEAST_SHARE, self.records_bytes(_power(free // 4)), batch_bytes * 5 // 4)
        return min(self.max_partition_bytes, self.fetch_max_bytes, share)

    def is_full(self, slices: int, size: int, free: int) -> bool:
        """Return True if a partition's buffer has `max_prefetch` responses, or a quarter of the free bytes.

        An empty buffer is never full.
        """
        return slices > 0 and (slices >= self.max_prefetch or size >= max(LEAST_SHARE, free // 4))

    def has_room(self, buffered: int, need: int) -> bool:
        """Return True if a request for `need` bytes fits.

        With no bytes buffered or reserved it always fits: a budget below one batch must not stop all fetching.
        """
        return buffered + self.reserved + need <= self.limit or buffered + self.reserved == 0


def _power(size: int) -> int:
    """Return the largest power of two up to `size`, at least 1."""
    return 1 << max(0, size.bit_length() - 1)
