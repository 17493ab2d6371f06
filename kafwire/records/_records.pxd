"""The Python objects of decoded batches: `Batch`, and lazily made `Record`s over Columns."""
from libc.stdint cimport int8_t, int32_t, int64_t

from kafwire._codec cimport DecodeSpec
from kafwire.records._arrow cimport Layout
from kafwire.records._columns cimport Columns


cdef str unexported(object topic, object partition, int64_t base_offset, int64_t next_offset, object problem)


# Python reads the first four as members, like __slots__: the interpreter specialises that, and a property takes five
# times as long.
cdef class Record:
    cdef object topic
    cdef object partition
    cdef object key
    cdef object value
    cdef readonly int64_t offset
    cdef int64_t timestamp  # -1: none
    cdef int8_t kind  # 0 create, 1 log append
    cdef tuple pairs  # None: no headers


cdef class Records:
    """Decoded rows of one partition: a sequence of Record, and a struct array for Arrow."""
    cdef Columns columns  # empty while `away`
    cdef Layout layout
    cdef readonly object topic
    cdef readonly object partition
    cdef int64_t rows
    cdef size_t space  # memory limit for the columns and the Python objects of one record
    cdef int heavy  # why a record takes more than a copy: HEAVY_LARGE, HEAVY_DESERIALIZED; mostly 0
    cdef object deserializer  # None: keys and values are bytes
    cdef bint away  # fetch() decodes the columns again
    cdef int32_t pins  # uses of the columns: while there are any, the columns must stay

    cdef void settle(self, const DecodeSpec *spec) noexcept  # called once the columns are decoded
    cdef int fetch(self) except -1
    cdef int64_t end_offset(self) noexcept  # where reading continues after the last record
    cdef Record record(self, int64_t row)
    cdef Record raw(self, int64_t row)  # with key and value as bytes
    cdef Record made(self, int64_t row)
    cdef object not_exported(self, object problem)


# Iterates over the records of one batch, or of many: `batch` is the current one, `row` the number of returned records.
cdef class RecordIterator:
    cdef object batches  # an iterator of Records; None: only the current batch
    cdef readonly Records batch
    cdef object refused  # a batch to be skipped
    cdef readonly int64_t row
    cdef readonly unsigned long thread  # the thread that requested the last record
    cdef readonly object context  # context of the task that last called `called`


cdef class Batch(Records):
    cdef readonly int64_t base_offset  # of the first wire batch, or where reading began
    cdef readonly int64_t next_offset  # where reading continues

    # Takes ownership of the columns' buffers (and resets *columns). columns_finish() it first. `spec`: its decoding.
    @staticmethod
    cdef Batch take(Columns *columns, Layout layout, object topic, object partition, const DecodeSpec *spec)

    cdef void use(self, object deserializer) noexcept  # for records, and for columns if it supports them
