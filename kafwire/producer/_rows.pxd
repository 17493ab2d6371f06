"""Rows of tables into batches: which go to which partition (`RowPlan`), and passes that encode them without the GIL."""
from libc.stdint cimport int32_t, int64_t

from kafwire.producer._batch cimport ProducerBatch
from kafwire.producer._queues cimport PartitionQueue, Queues, Topic
from kafwire.records._arrow_rows cimport Rows


cdef class RowPlan:
    """Which rows go to which partition: groups of row numbers, and how far they are encoded."""
    cdef Topic topic
    cdef Rows rows
    cdef int64_t first_row  # of these rows in the user's table, for errors
    cdef int32_t *index  # row numbers by group; NULL: all rows in order, one group
    cdef int64_t *bounds  # group g is index[bounds[g]:bounds[g + 1]]
    cdef int32_t groups
    cdef int32_t group  # being encoded
    cdef int64_t position  # in index
    cdef int32_t fixed  # the partition of a single group, or -1
    cdef bint sticks  # the single group goes where the topic's rows stick at the moment
    cdef object partition  # that the user named for all rows, or None
    cdef int64_t transaction_generation  # of the accumulator
    cdef PartitionQueue queue  # of the pass that is under way
    cdef ProducerBatch filled  # the open batch that it goes on with, or None

    cdef int placed(self) noexcept
    cdef bint go_on(self) noexcept


# A plan for the rows `chosen` (int32), or with None all; None: the topic is unknown.
cdef RowPlan plan_table(Queues queues, str topic_name, Rows rows, partition, int64_t first_row,
                        int64_t transaction_generation, bytes chosen)
# Encode on from where `plan` stands, as far as there is room: whether it is finished.
cdef bint add_table(Queues queues, RowPlan plan, list parts) except -1
