"""How much may be fetched ahead, and how much of it each request and partition may take.

Pure: what is buffered comes in, sizes go out. `fetcher.py` carries them out.
"""

from __future__ import annotations

from kafwire.lazy_dataclass import dataclass

# What each partition finds free, however much others have buffered: some small batches.
LEAST_SHARE = 16 << 10
ENVELOPE = 64 << 10  # more than an answer has beside the records, unless it has thousands of partitions


@dataclass(slots=True)
class Budget:
    """What may be fetched and not decoded yet, in bytes, and what each partition and request may take of it.

    Room is reserved before a request leaves. An answer may be larger only by one batch that is larger than the request
    allowed: a broker gives the first partition that has data one batch, whatever its size.
    """

    limit: int
    fetch_max_bytes: int
    max_partition_bytes: int
    max_prefetch: int  # answers in one partition's buffer
    reserved: int = 0

    # What is taken depends on what is free, not only on how many partitions there are: a busy one among a thousand idle
    # ones may have much. Each of several whose readers are slow takes less than the one before, and leaves something
    # for all that are to come.

    def free(self, buffered: int, partitions: int) -> int:
        """What nobody has, and nobody is to find empty: a little for each of `partitions` is not given to others."""
        kept = min(self.limit // 2, 2 * LEAST_SHARE * partitions)  # one waits for its reader, one is on its way
        return max(0, self.limit - self.reserved - buffered - kept)

    def request_bytes(self, broker_fetchers: int, free: int) -> int:
        """How much room one request may take: a quarter of the budget is for what is on its way, half of what is free.

        In powers of two, as buffers are: one that is half empty takes the memory of a full one.
        """
        return _power(
            min(self.fetch_max_bytes, self.limit // (4 * max(1, broker_fetchers)), max(LEAST_SHARE, free // 2))
        )

    @staticmethod
    def records_bytes(room: int) -> int:
        """The records that a request may ask for, so that the answer around them fits into `room` too."""
        return max(1, room - min(room // 64, ENVELOPE))

    def partition_bytes(self, free: int, batch_bytes: int = 0) -> int:
        """How much one partition, whose batches are about so large, may give in one answer: a quarter of what is free.

        Below a usual batch that would serve nobody. In powers of two, since what changes has to be said to the broker;
        a little less than these, as the answer around the records lies in the same buffer.
        """
        share = max(LEAST_SHARE, self.records_bytes(_power(free // 4)), batch_bytes * 5 // 4)
        return min(self.max_partition_bytes, self.fetch_max_bytes, share)

    def is_full(self, slices: int, size: int, free: int) -> bool:
        """Whether a partition's buffer has enough for now: so many answers, or a quarter of what is free.

        An empty one never has.
        """
        return slices > 0 and (slices >= self.max_prefetch or size >= max(LEAST_SHARE, free // 4))

    def has_room(self, buffered: int, need: int) -> bool:
        """Whether a request for `need` bytes fits. Alone it always does: a budget below one batch must not stop all."""
        return buffered + self.reserved + need <= self.limit or buffered + self.reserved == 0


def _power(size: int) -> int:
    """The largest power of two that is not above `size`, 1 at least."""
    return 1 << max(0, size.bit_length() - 1)
