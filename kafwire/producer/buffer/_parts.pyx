# distutils: sources = kafwire/memory/native/buf.c
"""The implementation of `producer/buffer/_parts.pxd`."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset

from kafwire.records._batch_header cimport BATCH_HEADER
from kafwire.memory._buffer cimport kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire.producer.buffer._batch cimport MIXED, ProducerBatch
from kafwire.producer.buffer._partitioner cimport (
    SPREAD_FUNCTION, SPREAD_RANDOM, SPREAD_TURNS, PartitionWeights, Rule, StickyState, WeightTable, by_key, draw,
    move_on, pick, take_turn,
)
from kafwire.producer.buffer._queues cimport FIRST_RESERVE, PartitionQueue, Queues, Topic
from kafwire.records._codec_status cimport SLACK
from kafwire.records._compress cimport decompress, resolve_codec
from kafwire.records._encode cimport batch_base_timestamp, record_key, writer_copy, writer_open
from kafwire.records._libraries cimport LZ4_ROOM

from kafwire.errors import KafkaError


cdef list cut_batch(Queues queues, ProducerBatch batch, list starts, refused):
    cdef ProducerBatch part
    cdef kw_buf *raw = NULL
    cdef const uint8_t *records
    cdef size_t size, at = 0
    cdef int32_t count
    cdef int64_t base
    cdef int codec, code
    cdef list parts = []
    cdef list ends = starts[1:] + [batch.count]
    if batch.wire is NULL:
        raise ValueError("only a sealed batch can be split")
    codec = batch.wire.data[22] & 7
    base = batch_base_timestamp(batch.wire.data)
    records = batch.wire.data + BATCH_HEADER
    size = batch.wire.size - BATCH_HEADER
    try:
        if codec:
            raw = plain_records(batch, codec, records, size)
            records = raw.data
            size = raw.size
        for start, end in zip(starts, ends, strict=True):
            count = <int32_t> (end - start)
            if refused is not None and start in refused:
                part = ProducerBatch.__new__(ProducerBatch, queues.budget, batch.queue, batch.created_ms)
                code = writer_copy(NULL, records, size, &at, count, base)
            else:
                part = ProducerBatch.__new__(ProducerBatch, queues.budget, batch.queue, batch.created_ms)
                if writer_open(&part.writer, FIRST_RESERVE):
                    raise MemoryError("no memory for a part of a batch")
                part.writer.attributes = batch.wire.data[22] & ~7
                with nogil:
                    code = writer_copy(&part.writer, records, size, &at, count, base)
            if code:
                raise KafkaError(f"a batch could not be split: copying its records failed with code {code}")
            part.count = count
            part.placed = 0 if batch.placed == 0 else count if batch.placed == batch.count else MIXED
            part.closed = True
            parts.append((start, part))
    finally:
        kw_buf_unref(raw)
    for _, part in parts:
        if part.writer.buf is not NULL:
            part.charge(part.writer.buf.size)
    batch.divide(parts)
    if refused is not None:
        for start, part in parts:
            if start in refused:
                part.fail(refused[start])  # on the engine, where no callback of it raises
    return [part for start, part in parts if refused is None or start not in refused]


cdef list place_batch_again(Queues queues, ProducerBatch batch):
    cdef PartitionQueue queue = <PartitionQueue> batch.queue
    cdef Topic topic = queues.topics[queue.topic]
    cdef int32_t partitions = <int32_t> len(topic.queues)
    cdef int32_t before = <int32_t> len(queue.owner.queues)
    cdef kw_buf *raw = NULL
    cdef const uint8_t *records
    cdef size_t size
    cdef int64_t base
    cdef int codec = 0
    cdef uint16_t attributes
    recreated = f"topic {queue.topic!r} was recreated, with {partitions} partitions instead of {before}: "
    if queue.partition < partitions and (before == partitions or batch.placed == batch.count):
        batch.queue = topic.queues[queue.partition]
        return [(batch.queue, batch)]
    if batch.placed == batch.count:
        raise KafkaError(
            f"{recreated}{batch.count} record(s) are not in the log: their partition {queue.partition} no longer "
            "exists"
        )
    if batch.placed or queues.rule.spread == SPREAD_FUNCTION:
        raise KafkaError(
            f"{recreated}{batch.count} record(s) are not in the log, as their partitions were not all chosen by "
            "kafwire, or by the user's partitioner function: send them again"
        )
    if batch.wire is NULL:
        records = batch.writer.buf.data + BATCH_HEADER
        size = batch.writer.buf.size - BATCH_HEADER
        base = batch.writer.base_timestamp
        attributes = batch.writer.attributes
    else:
        codec = batch.wire.data[22] & 7
        records = batch.wire.data + BATCH_HEADER
        size = batch.wire.size - BATCH_HEADER
        base = batch_base_timestamp(batch.wire.data)
        attributes = batch.wire.data[22] & ~7
    try:
        if codec:
            raw = plain_records(batch, codec, records, size)
            records = raw.data
            size = raw.size
        return scatter(queues, batch, topic, records, size, base, attributes)
    finally:
        kw_buf_unref(raw)


cdef list scatter(Queues queues, ProducerBatch batch, Topic topic, const uint8_t *records, size_t size, int64_t base,
                  uint16_t attributes):
    """Choose the partition of each record again: by its key, else by the producer's rule."""
    cdef int32_t partitions = <int32_t> len(topic.queues)
    cdef int32_t count = batch.count
    cdef bytes chosen = PyBytes_FromStringAndSize(NULL, count * <Py_ssize_t> sizeof(int32_t))
    cdef bytes places = PyBytes_FromStringAndSize(NULL, 2 * count * <Py_ssize_t> sizeof(int32_t))
    cdef bytes numbers = PyBytes_FromStringAndSize(NULL, partitions * <Py_ssize_t> sizeof(int32_t))
    cdef int32_t *partition = <int32_t *> PyBytes_AS_STRING(chosen)
    cdef int32_t *place = <int32_t *> PyBytes_AS_STRING(places)
    cdef int32_t *number = <int32_t *> PyBytes_AS_STRING(numbers)  # partition: index of its part
    cdef PartitionWeights weights = topic.weights
    cdef StickyState sticky_state = topic.sticky_state
    cdef Rule rule = queues.rule
    cdef ProducerBatch part
    cdef size_t at = 0
    cdef int code = 0
    cdef int32_t i
    cdef list used = []
    cdef list parts = []
    with nogil:
        for i in range(count):
            code = _choose(&rule, records, size, &at, partitions, &weights.table, &sticky_state, &partition[i])
            if code:
                break
    if code:
        raise KafkaError(f"a batch for {batch.queue.name} could not be decoded (code {code})")
    topic.sticky_state = sticky_state
    memset(number, 0xff, partitions * sizeof(int32_t))
    for i in range(count):
        if number[partition[i]] < 0:
            number[partition[i]] = <int32_t> len(used)
            used.append(partition[i])
    if len(used) == 1:
        batch.queue = topic.queues[used[0]]
        return [(batch.queue, batch)]
    for chosen_partition in used:
        part = ProducerBatch.__new__(ProducerBatch, queues.budget, topic.queues[chosen_partition], batch.created_ms)
        if writer_open(&part.writer, FIRST_RESERVE):
            raise MemoryError("no memory for a part of a batch")
        part.writer.attributes = attributes
        part.closed = True
        parts.append((0, part))
    at = 0
    for i in range(count):
        place[2 * i] = number[partition[i]]
        _, part = parts[number[partition[i]]]
        code = writer_copy(&part.writer, records, size, &at, 1, base)
        if code:
            raise KafkaError(f"a batch for {batch.queue.name} could not be copied (code {code})")
        place[2 * i + 1] = part.count
        part.count += 1
    for _, part in parts:
        part.charge(part.writer.buf.size)
    batch.places = places
    batch.divide(parts)
    return [(part.queue, part) for _, part in parts]


cdef int _choose(const Rule *rule, const uint8_t *records, size_t size, size_t *at, int32_t partitions,
                 const WeightTable *weights, StickyState *sticky_state, int32_t *out) noexcept nogil:
    """Write the partition of the record at `at` to `out`; a sticky record goes to the current sticky partition."""
    cdef const uint8_t *key
    cdef int64_t key_size
    cdef int code = record_key(records, size, at, &key, &key_size)
    if code:
        return code
    out[0] = by_key(rule, key, key_size, partitions)
    if out[0] >= 0:
        return 0
    if rule.spread == SPREAD_RANDOM:
        out[0] = pick(weights, draw(&sticky_state.rng_state))
    elif rule.spread == SPREAD_TURNS:
        out[0] = take_turn(sticky_state, weights)
        sticky_state.turn += 1
    else:
        if sticky_state.sticky < 0:
            move_on(sticky_state, weights)
        out[0] = sticky_state.sticky
    return 0


cdef kw_buf *plain_records(ProducerBatch batch, int codec, const uint8_t *records, size_t size) except NULL:
    """Return the decompressed records of a sealed batch.

    The buffer is as large as the records were, so that the engine need not wait for room in the decompression budget.
    """
    cdef kw_buf *out
    cdef const char *reason
    cdef int code
    resolve_codec(codec)
    out = kw_buf_new(process_pool(), batch.raw_size + 2 * LZ4_ROOM + SLACK)
    if out is NULL:
        raise MemoryError("no memory for the records of a batch")
    with nogil:
        code = decompress(codec, records, size, &out, batch.raw_size, batch.raw_size, &reason)
    if code:
        kw_buf_unref(out)
        raise KafkaError(f"a batch could not be read again: decompressing it failed with code {code}")
    return out
