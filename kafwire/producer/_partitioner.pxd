"""Where records go that name no partition: hashes of keys, the weights of partitions, and whole tables at once."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from kafwire.records._arrow_rows cimport Rows, RowsView

cdef enum:
    HASH_NONE = 0
    HASH_MURMUR2 = 1
    HASH_CRC32 = 2
    HASH_FNV1A = 3

    SPREAD_STICKY = 0
    SPREAD_RANDOM = 1
    SPREAD_TURNS = 2
    SPREAD_FUNCTION = 3

    ELSEWHERE = -1  # not for the key to say


# How a producer places records; `producer/partitioner.py` has them by name.
cdef struct Rule:
    int hash  # HASH_*
    int hashed_from  # the smallest size of a key that is hashed; a null key has -1
    int spread  # SPREAD_*: where all others go


# Partition ids[i] is drawn with the chance (ends[i] - ends[i - 1]) / ends[count - 1].
cdef struct WeightTable:
    int32_t count
    int32_t *ids
    int64_t *ends


# How far records of one topic have come that no key places.
cdef struct StickyState:
    int32_t sticky  # the partition that they stick to; -1: to be drawn
    size_t stuck  # bytes since it was drawn
    uint32_t turn  # of the next in SPREAD_TURNS
    uint64_t rng_state  # state of `draw`


cdef class PartitionWeights:
    """The partitions of a topic to draw from. Never changes: whoever holds it may draw without the GIL."""
    cdef readonly tuple ids
    cdef WeightTable table


cdef int read_rule(object rule, Rule *out) except -1
cdef uint64_t draw(uint64_t *state) noexcept nogil
cdef int32_t pick(const WeightTable *weights, uint64_t random) noexcept nogil
# The partition of a key, or ELSEWHERE; size -1: null.
cdef int32_t by_key(const Rule *rule, const uint8_t *data, int64_t size, int32_t partitions) noexcept nogil
# Whether the next `bound` bytes would pass a batch: the time to draw another partition (KIP-794).
cdef bint is_over(const StickyState *sticky_state, size_t bound, size_t batch_size) noexcept nogil
# Whose turn it is; add one to `turn` when it was used.
cdef int32_t take_turn(const StickyState *sticky_state, const WeightTable *weights) noexcept nogil
cdef void move_on(StickyState *sticky_state, const WeightTable *weights) noexcept nogil
# The rows of each topic of column `topic`: [(name, row numbers as int32 in bytes)], by first appearance. Raises
# ConfigError; `first_row` is for its text.
cdef list by_topic(Rows rows, int64_t first_row)
# A partition for each of `count` rows, which are `chosen[i]`, or with NULL row i itself: its own, its key's, or as the
# rule spreads them; ELSEWHERE: the function is to be asked. Answers the first row whose own partition does not exist,
# or -1.
cdef int64_t assign(const RowsView *view, const int32_t *chosen, int64_t count, const Rule *rule,
                    const WeightTable *weights, int32_t partitions, size_t batch_size, StickyState *sticky_state,
                    int32_t *out) noexcept nogil
# The partition that the user's function answers, which may do anything, sending included. Raises ConfigError; `where`
# begins its text.
cdef int32_t ask(function, str topic, int32_t partitions, PartitionWeights weights, const uint8_t *key_data,
                 int64_t key_size, str where) except -1
