"""Chooses partitions for records that name none: hashes of keys, weights of partitions, whole tables at once."""
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

    ELSEWHERE = -1  # the key does not decide


# How a producer chooses partitions; `producer/buffer/partitioner.py` has the rules by name.
cdef struct Rule:
    int hash  # HASH_*
    int hashed_from  # smallest key size that is hashed; -1: null keys too
    int spread  # SPREAD_*: how records without a hashed key are spread


# Partition ids[i] is drawn with the chance (ends[i] - ends[i - 1]) / ends[count - 1].
cdef struct WeightTable:
    int32_t count
    int32_t *ids
    int64_t *ends


# Where the spreading of one topic's records stands.
cdef struct StickyState:
    int32_t sticky  # the sticky partition; -1: not chosen yet
    size_t stuck  # bytes sent to it
    uint32_t turn  # of the next record in SPREAD_TURNS
    uint64_t rng_state  # state of `draw`


cdef class PartitionWeights:
    """The weighted partitions of a topic. Immutable: a thread that holds it may draw without the GIL."""
    cdef readonly tuple ids
    cdef WeightTable table


cdef int read_rule(object rule, Rule *out) except -1
cdef uint64_t draw(uint64_t *state) noexcept nogil
cdef int32_t pick(const WeightTable *weights, uint64_t random) noexcept nogil
# The partition of a key, or ELSEWHERE; size -1: null.
cdef int32_t by_key(const Rule *rule, const uint8_t *data, int64_t size, int32_t partitions) noexcept nogil
# True if `bound` more bytes exceed a batch: then another partition is drawn (KIP-794).
cdef bint is_over(const StickyState *sticky_state, size_t bound, size_t batch_size) noexcept nogil
# The partition of this turn; the caller increments `turn` once it is used.
cdef int32_t take_turn(const StickyState *sticky_state, const WeightTable *weights) noexcept nogil
cdef void move_on(StickyState *sticky_state, const WeightTable *weights) noexcept nogil
# Group rows by column `topic`: [(name, row numbers as int32 in bytes)], by first appearance. Raises ConfigError;
# `first_row` is for its text.
cdef list by_topic(Rows rows, int64_t first_row)
# Choose a partition for each of `count` rows `chosen[i]` (NULL: row i): the row's own, its key's, or by the rule;
# ELSEWHERE: the user's partitioner decides. Returns the first row whose own partition does not exist, or -1.
cdef int64_t assign(const RowsView *view, const int32_t *chosen, int64_t count, const Rule *rule,
                    const WeightTable *weights, int32_t partitions, size_t batch_size, StickyState *sticky_state,
                    int32_t *out) noexcept nogil
# The partition that the user's function returns; it may run any code, even a send. Raises ConfigError, with a text that
# begins with `where`.
cdef int32_t ask(function, str topic, int32_t partitions, PartitionWeights weights, const uint8_t *key_data,
                 int64_t key_size, str where) except -1
