"""What Python sees of decoded batches: `Batch`, `RecordBatch` and lazily made `Record`s over Columns."""
from libc.stdint cimport int8_t, int64_t

from kafwire._arrow cimport Layout
from kafwire._codec cimport BatchHeader, Columns


cdef class Record:
    cdef readonly object topic
    cdef readonly object partition
    cdef readonly int64_t offset
    cdef readonly object key
    cdef readonly object value
    cdef int64_t timestamp  # -1: none
    cdef int8_t kind  # 0 create, 1 log append
    cdef tuple pairs  # None: no headers


cdef class Records:
    """Decoded rows of one partition: a sequence of Record, and a struct array for Arrow."""
    cdef Columns columns
    cdef Layout layout
    cdef readonly object topic
    cdef readonly object partition

    cdef Record record(self, int64_t row)


cdef class Batch(Records):
    cdef readonly int64_t base_offset  # of the first wire batch, or where reading began
    cdef readonly int64_t next_offset  # where to go on

    # Takes over the columns' buffers (and resets *columns). columns_finish() it first.
    @staticmethod
    cdef Batch take(Columns *columns, Layout layout, object topic, object partition, int64_t base_offset,
                    int64_t next_offset)


cdef class RecordBatch(Records):
    cdef BatchHeader header
