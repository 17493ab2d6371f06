"""Appends rows of tables to batches: where each row goes (`RowPlan`), and passes that encode rows without the GIL."""
from libc.stdint cimport int32_t, int64_t

from kafwire.producer.buffer._batch cimport ProducerBatch
from kafwire.producer.buffer._queues cimport PartitionQueue, Queues, Topic
from kafwire.records._arrow_rows cimport Rows


cdef class RowPlan:
    """Where each row of a table goes: row numbers grouped by partition, and how many are encoded."""
    cdef Topic topic
    cdef Rows rows
    cdef int64_t first_row  # number of the first of these rows in the user's table, for errors
    cdef int32_t *index  # row numbers by group; NULL: all rows in order, one group
    cdef int64_t *bounds  # group g is index[bounds[g]:bounds[g + 1]]
    cdef int32_t groups
    cdef int32_t group  # being encoded
    cdef int64_t position  # next row, in index
    cdef int32_t fixed  # the partition of a single group, or -1
    cdef bint sticks  # the single group goes to the topic's sticky partition
    cdef object partition  # the partition that the user named for all rows, or None
    cdef int64_t transaction_generation  # of the accumulator when the plan was made
    cdef PartitionQueue queue  # of the pass that is running
    cdef ProducerBatch filled  # the open batch that the pass continues, or None

    cdef int placed(self) noexcept
    cdef bint go_on(self) noexcept


# Plan the rows `chosen` (int32; None: all). Return None if the topic is unknown.
cdef RowPlan plan_table(Queues queues, str topic_name, Rows rows, partition, int64_t first_row,
                        int64_t transaction_generation, bytes chosen)
# Encode from the plan's position on while there is room; True if the plan is finished.
cdef bint add_table(Queues queues, RowPlan plan, list parts) except -1
