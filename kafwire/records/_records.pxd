"""What Python sees of decoded batches: `Batch` and lazily made `Record`s over Columns."""
from libc.stdint cimport int8_t, int32_t, int64_t

from kafwire._codec cimport DecodeSpec
from kafwire.records._arrow cimport Layout
from kafwire.records._columns cimport Columns


cdef str unexported(object topic, object partition, int64_t base_offset, int64_t next_offset, object problem)


# Python reads the first four as members, as it does __slots__: its interpreter knows how to do that in place, and asks
# a property five times as long.
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
    cdef Columns columns  # none while `away`
    cdef Layout layout
    cdef readonly object topic
    cdef readonly object partition
    cdef int64_t rows
    cdef size_t space  # what columns and the Python objects of one record may take together
    cdef int heavy  # why a record is more work than to copy it: HEAVY_LARGE, HEAVY_DESERIALIZED; mostly 0
    cdef object deserializer  # None: keys and values are bytes
    cdef bint away  # fetch() brings the columns back
    cdef int32_t pins  # columns in use: they must stay

    cdef void settle(self, const DecodeSpec *spec) noexcept  # once the columns are there
    cdef int fetch(self) except -1
    cdef int64_t end_offset(self) noexcept  # where reading goes on after the last record
    cdef Record record(self, int64_t row)
    cdef Record raw(self, int64_t row)  # its key and value are bytes
    cdef Record made(self, int64_t row)
    cdef object not_exported(self, object problem)


# The records of one batch, or of many: `batch` is the one in hand, `row` how many of its records were handed out.
cdef class RecordIterator:
    cdef object batches  # an iterator of Records; None: there is only the batch in hand
    cdef readonly Records batch
    cdef readonly int64_t row
    cdef readonly unsigned long thread  # the one that asked for the record handed out last
    cdef readonly object context  # of the task that `called` last


cdef class Batch(Records):
    cdef readonly int64_t base_offset  # of the first wire batch, or where reading began
    cdef readonly int64_t next_offset  # where to go on

    # Takes over the columns' buffers (and resets *columns). columns_finish() it first. `spec`: what made them.
    @staticmethod
    cdef Batch take(Columns *columns, Layout layout, object topic, object partition, const DecodeSpec *spec)

    cdef void use(self, object deserializer) noexcept  # of records, and of columns if it can
