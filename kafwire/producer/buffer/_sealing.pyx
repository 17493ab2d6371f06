# distutils: sources = kafwire/memory/native/buf.c
"""The implementation of `producer/buffer/_sealing.pxd`."""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafwire.memory._buffer cimport kw_buf, kw_buf_new, kw_buf_unref, process_pool
from kafwire.producer.buffer._batch cimport ProducerBatch
from kafwire.producer.buffer._queues cimport Queues
from kafwire.records._encode cimport batch_stamp, writer_seal

from kafwire.errors import KafkaError


cdef int seal_batches(Queues queues, list batches) except -1:
    cdef Py_ssize_t n = len(batches)
    cdef Py_ssize_t i
    cdef ProducerBatch batch
    cdef SealWork *work = <SealWork *> calloc(max(n, 1), sizeof(SealWork))
    cdef int codec = queues.codec
    cdef int level = queues.level
    cdef int failed = 0
    if work is NULL:
        raise MemoryError
    try:
        for i in range(n):
            batch = <ProducerBatch> batches[i]
            work[i].wire = batch.wire
        for i in range(n):
            batch = <ProducerBatch> batches[i]
            if batch.filling:
                raise ValueError("a batch that is being filled cannot be sent")
            producer_id, epoch = batch.producer if batch.producer is not None else (-1, -1)
            identity = (producer_id, epoch, batch.sequence)
            work[i].writer = &batch.writer
            work[i].stamp = batch.identity != identity
            # A closed connection may still hold the bytes of the last stamp: they must not change.
            work[i].copy = batch.identity is not None and work[i].stamp
            work[i].producer_id = producer_id
            work[i].epoch = epoch
            work[i].sequence = batch.sequence
            batch.identity = identity
        with nogil:
            for i in range(n):
                failed = seal(&work[i], codec, level)
                if failed:
                    break
    finally:
        take_work(batches, n, work)
        free(work)
    queues.budget.settle_up()
    if failed:
        raise KafkaError(f"a batch could not be compressed (code {failed}): is there enough memory?")
    return 0


cdef void take_work(list batches, Py_ssize_t n, SealWork *work) noexcept:
    """Give the batches their sealed bytes, in one step."""
    cdef ProducerBatch batch
    cdef Py_ssize_t i
    for i in range(n):
        batch = <ProducerBatch> batches[i]
        batch.wire = work[i].wire
        if batch.wire is not NULL:
            batch.recharge()


cdef int seal(SealWork *work, int codec, int level) noexcept nogil:
    cdef kw_buf *copy
    cdef int failed
    if work.wire is NULL:
        failed = writer_seal(work.writer, codec, level, &work.wire, True)
        if failed:
            return failed
    elif work.copy:
        copy = kw_buf_new(process_pool(), work.wire.size)
        if copy is NULL:
            return -1
        memcpy(copy.data, work.wire.data, work.wire.size)
        copy.size = work.wire.size
        kw_buf_unref(work.wire)
        work.wire = copy
    if work.stamp:
        batch_stamp(work.wire.data, work.wire.size, work.producer_id, work.epoch, work.sequence)
    return 0
