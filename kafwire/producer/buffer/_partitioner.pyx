"""The implementation of `producer/buffer/_partitioner.pxd`.

Belongs here: arithmetic, and the call of the user's function. Does not: the choice of weights (`partitioner.py`), when
a batch is full, and any source of randomness other than the state in the arguments.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memset

from kafwire._codec cimport crc32c
from kafwire.records._batch_header cimport BATCH_HEADER
from kafwire.memory._buffer cimport kw_le32
from kafwire.records._arrow_rows cimport BytesView, Rows, RowsView, bytes_at, number_at
from kafwire.records._message_set cimport kw_crc32

import operator

from kafwire.errors import ConfigError


cdef enum:
    FEW_TOPICS = 64
    ROW_OVERHEAD = 8  # about what a record takes beside its value; the writer counts exactly

cdef dict HASHES = {None: HASH_NONE, "murmur2": HASH_MURMUR2, "crc32": HASH_CRC32, "fnv1a": HASH_FNV1A}
cdef dict SPREADS = {
    "sticky": SPREAD_STICKY, "random": SPREAD_RANDOM, "turns": SPREAD_TURNS, "function": SPREAD_FUNCTION,
}


# --- hashes ---------------------------------------------------------------------------------------------------------

cdef inline uint32_t murmur2(const uint8_t *data, size_t size) noexcept nogil:
    """MurmurHash2 with the seed of Kafka's Java client."""
    cdef uint32_t m = 0x5BD1E995
    cdef uint32_t h = 0x9747B28Cu ^ <uint32_t>size
    cdef uint32_t k
    cdef size_t i = 0
    while i + 4 <= size:
        k = kw_le32(data + i) * m
        k ^= k >> 24
        h = h * m ^ k * m
        i += 4
    if size - i >= 3:
        h ^= <uint32_t>data[i + 2] << 16
    if size - i >= 2:
        h ^= <uint32_t>data[i + 1] << 8
    if size - i >= 1:
        h ^= data[i]
        h *= m
    h ^= h >> 13
    h *= m
    return h ^ h >> 15


cdef inline uint32_t fnv1a(const uint8_t *data, size_t size) noexcept nogil:
    """FNV-1a of 32 bits, the absolute value of the signed number, as in librdkafka and Sarama."""
    cdef uint32_t h = 0x811C9DC5u
    cdef size_t i
    for i in range(size):
        h = (h ^ data[i]) * 0x01000193u
    return 0u - h if h >> 31 else h


cdef inline uint32_t hash_of(int kind, const uint8_t *data, size_t size) noexcept nogil:
    if kind == HASH_MURMUR2:
        return murmur2(data, size)
    if kind == HASH_CRC32:
        return kw_crc32(data, size)
    return fnv1a(data, size)


def hash_key(str name, const uint8_t[::1] data):
    """Return the unsigned hash `name` ("murmur2", "crc32", "fnv1a") of `data`; raise `KeyError` for another name."""
    return hash_of(HASHES[name], &data[0] if data.shape[0] else NULL, data.shape[0])


# --- one record -----------------------------------------------------------------------------------------------------

cdef int read_rule(object rule, Rule *out) except -1:
    """Convert a `producer.buffer.partitioner.Rule` to its C form."""
    out.hash = HASHES[rule.hash]
    out.hashed_from = rule.hashed_from
    out.spread = SPREADS[rule.spread]
    return 0


cdef inline int32_t place(const Rule *rule, const uint8_t *data, int64_t size, int32_t partitions) noexcept nogil:
    cdef uint32_t h
    if rule.hash == HASH_NONE or size < rule.hashed_from:
        return ELSEWHERE
    h = hash_of(rule.hash, data, <size_t>size if size > 0 else 0)
    if rule.hash == HASH_MURMUR2:
        h &= 0x7FFFFFFFu
    return <int32_t>(h % <uint32_t>partitions)


cdef int32_t by_key(const Rule *rule, const uint8_t *data, int64_t size, int32_t partitions) noexcept nogil:
    return place(rule, data, size, partitions)


cdef uint64_t draw(uint64_t *state) noexcept nogil:
    """Return the next 64 random bits (SplitMix64)."""
    cdef uint64_t z
    state[0] += 0x9E3779B97F4A7C15u
    z = state[0]
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u
    z = (z ^ z >> 27) * 0x94D049BB133111EBu
    return z ^ z >> 31


cdef int32_t pick(const WeightTable *weights, uint64_t random) noexcept nogil:
    """Return the partition whose share `random`, taken modulo the last end, falls into."""
    cdef int64_t total = weights.ends[weights.count - 1]
    cdef int64_t wanted = <int64_t>(random % <uint64_t>total)
    cdef int32_t low = 0, high = weights.count - 1, middle
    if total == weights.count:  # equal weights
        return weights.ids[wanted]
    while low < high:
        middle = (low + high) // 2
        if weights.ends[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return weights.ids[low]


cdef bint is_over(const StickyState *sticky_state, size_t bound, size_t batch_size) noexcept nogil:
    return sticky_state.sticky < 0 or sticky_state.stuck + bound + BATCH_HEADER > batch_size


cdef int32_t take_turn(const StickyState *sticky_state, const WeightTable *weights) noexcept nogil:
    return weights.ids[(sticky_state.turn & 0x7FFFFFFFu) % <uint32_t>weights.count]


cdef void move_on(StickyState *sticky_state, const WeightTable *weights) noexcept nogil:
    sticky_state.sticky = pick(weights, draw(&sticky_state.rng_state))
    sticky_state.stuck = 0


@cython.final
cdef class PartitionWeights:
    def __cinit__(self, ids, ends):
        cdef int32_t i
        cdef int64_t last = 0
        self.ids = tuple(ids)
        ends = tuple(ends)
        if not self.ids or len(self.ids) != len(ends):
            raise ValueError("weights need as many ends as partitions, and at least one")
        self.table.count = len(ends)
        self.table.ids = <int32_t *> malloc(len(ends) * sizeof(int32_t))
        self.table.ends = <int64_t *> malloc(len(ends) * sizeof(int64_t))
        if self.table.ids is NULL or self.table.ends is NULL:
            raise MemoryError
        for i in range(self.table.count):
            self.table.ids[i] = self.ids[i]
            self.table.ends[i] = ends[i]
            if self.table.ids[i] < 0 or self.table.ends[i] <= last:
                raise ValueError("partitions count from 0, and each has a weight")
            last = self.table.ends[i]

    def __dealloc__(self):
        free(self.table.ids)
        free(self.table.ends)

    def pick(self, uint64_t random):
        """Return the partition whose share `random`, taken modulo the sum of all, falls into."""
        return pick(&self.table, random)


# --- rows -----------------------------------------------------------------------------------------------------------

cdef struct _Groups:
    int32_t *of_row
    int32_t *firsts  # the first row of each group
    int64_t *counts
    int32_t *slots  # hash table from topic name to group + 1; 0: free
    size_t mask  # number of slots minus 1
    int32_t count


cdef int64_t group_topics(const BytesView *topics, int64_t n, _Groups *groups) noexcept nogil:
    """Number the topics by first appearance; return -1, the first row without a topic, or -2 if memory is lacking."""
    cdef const uint8_t *data
    cdef const uint8_t *other
    cdef const uint8_t *last = NULL
    cdef int64_t i, size, other_size
    cdef int64_t last_size = -1
    cdef int32_t group = 0
    cdef size_t slot
    for i in range(n):
        bytes_at(topics, i, &data, &size)
        if size < 0:
            return i
        if size != last_size or memcmp(data, last, size):
            slot = crc32c(0, data, size) & groups.mask
            while True:
                group = groups.slots[slot] - 1
                if group < 0:
                    break
                bytes_at(topics, groups.firsts[group], &other, &other_size)
                if size == other_size and memcmp(data, other, size) == 0:
                    break
                slot = (slot + 1) & groups.mask
            if group < 0:
                group = groups.count
                groups.count += 1
                groups.firsts[group] = <int32_t> i
                groups.slots[slot] = group + 1
                if <size_t> groups.count * 2 > groups.mask and not widen(topics, groups):
                    return -2
            last = data
            last_size = size
        groups.of_row[i] = group
        groups.counts[group] += 1
    return -1


cdef bint widen(const BytesView *topics, _Groups *groups) noexcept nogil:
    """Double the slots; False if memory is lacking."""
    cdef size_t mask = groups.mask * 2 + 1
    cdef size_t slot
    cdef int32_t *slots = <int32_t *> calloc(mask + 1, sizeof(int32_t))
    cdef const uint8_t *data
    cdef int64_t size
    cdef int32_t group
    if slots is NULL:
        return False
    for group in range(groups.count):
        bytes_at(topics, groups.firsts[group], &data, &size)
        slot = crc32c(0, data, size) & mask
        while slots[slot]:
            slot = (slot + 1) & mask
        slots[slot] = group + 1
    free(groups.slots)
    groups.slots = slots
    groups.mask = mask
    return True


cdef list by_topic(Rows rows, int64_t first_row):
    cdef const BytesView *topics = &rows.view.topic
    cdef int64_t n = rows.view.length
    cdef int64_t i, bad, size
    cdef const uint8_t *data
    cdef int32_t group
    cdef int32_t **ends = NULL
    cdef _Groups groups
    cdef list found = []
    if rows.topic_problem is not None:
        raise rows.topic_problem
    if not topics.form:
        raise ConfigError("no topic: name one for all rows, or give the table a column 'topic'")
    if n > INT32_MAX:
        raise ConfigError(f"a chunk has {n} rows: send at most {INT32_MAX} rows at once")
    if n == 0:
        return found
    memset(&groups, 0, sizeof(groups))
    try:
        groups.of_row = <int32_t *> malloc(n * sizeof(int32_t))
        groups.firsts = <int32_t *> malloc(n * sizeof(int32_t))
        groups.counts = <int64_t *> calloc(n, sizeof(int64_t))
        groups.mask = FEW_TOPICS - 1
        groups.slots = <int32_t *> calloc(FEW_TOPICS, sizeof(int32_t))
        if groups.of_row is NULL or groups.firsts is NULL or groups.counts is NULL or groups.slots is NULL:
            raise MemoryError
        with nogil:
            bad = group_topics(topics, n, &groups)
        if bad == -2:
            raise MemoryError
        if bad >= 0:
            raise ConfigError(f"row {first_row + bad}: its topic is null: fill the column, or name one topic for all")
        ends = <int32_t **> malloc(groups.count * sizeof(int32_t *))
        if ends is NULL:
            raise MemoryError
        for group in range(groups.count):
            bytes_at(topics, groups.firsts[group], &data, &size)
            numbers = PyBytes_FromStringAndSize(NULL, groups.counts[group] * sizeof(int32_t))
            ends[group] = <int32_t *> PyBytes_AS_STRING(numbers)
            found.append((_topic_name(data[:size], first_row + groups.firsts[group]), numbers))
        with nogil:
            for i in range(n):
                ends[groups.of_row[i]][0] = <int32_t> i
                ends[groups.of_row[i]] += 1
    finally:
        free(groups.of_row)
        free(groups.firsts)
        free(groups.counts)
        free(groups.slots)
        free(ends)
    return found


cdef str _topic_name(bytes name, int64_t row):
    try:
        return name.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"row {row}: its topic is not UTF-8: {name!r}") from None


cdef int64_t assign(const RowsView *view, const int32_t *chosen, int64_t count, const Rule *rule,
                    const WeightTable *weights, int32_t partitions, size_t batch_size, StickyState *sticky_state,
                    int32_t *out) noexcept nogil:
    cdef int64_t i, j, own, size
    cdef int32_t partition
    cdef const uint8_t *data
    cdef int got
    for j in range(count):
        i = j if chosen is NULL else chosen[j]
        if view.partition.form:
            got = number_at(&view.partition, i, &own)
            if got < 0 or (got and (own < 0 or own >= partitions)):
                return i
            if got:
                out[j] = <int32_t>own
                continue
        if rule.hash != HASH_NONE:
            bytes_at(&view.key, i, &data, &size)
            partition = place(rule, data, size, partitions)
            if partition >= 0:
                out[j] = partition
                continue
        if rule.spread == SPREAD_STICKY:
            bytes_at(&view.value, i, &data, &size)
            size = ROW_OVERHEAD + (size if size > 0 else 0)
            if is_over(sticky_state, size, batch_size):
                move_on(sticky_state, weights)
            sticky_state.stuck += size
            out[j] = sticky_state.sticky
        elif rule.spread == SPREAD_RANDOM:
            out[j] = pick(weights, draw(&sticky_state.rng_state))
        elif rule.spread == SPREAD_TURNS:
            out[j] = take_turn(sticky_state, weights)
            sticky_state.turn += 1
        else:
            out[j] = ELSEWHERE
    return -1


cdef int32_t ask(function, str topic, int32_t partitions, PartitionWeights weights, const uint8_t *key_data,
                 int64_t key_size, str where) except -1:
    key = PyBytes_FromStringAndSize(<const char *> key_data, key_size) if key_size >= 0 else None
    problem = None
    try:
        returned = function(topic, key, partitions, weights.ids)
    except Exception as error:
        problem = error
        said = f"raised {type(error).__name__}: {error}"
    else:
        try:
            chosen = -1 if isinstance(returned, bool) else operator.index(returned)
        except TypeError:
            chosen = -1
        if 0 <= chosen < partitions:
            return chosen
        said = f"returned {returned!r}"
    raise ConfigError(
        f"{where}the partitioner {getattr(function, '__qualname__', function)} {said}; it must return a partition of "
        f"topic {topic!r}, 0 to {partitions - 1}, for key {_shown(key)}; the record was not sent"
    ) from problem


cdef str _shown(key):
    return repr(key if key is None or len(key) <= 40 else key[:40] + b"...")
