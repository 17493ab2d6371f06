# distutils: sources = kafwire/memory/native/buf.c
"""The implementation of `producer/buffer/_rows.pxd`; `producer/buffer/_queues.pyx` has the rule by which queues change.

A pass encodes up to `ROWS_AT_ONCE` batches without the GIL. `begin_pass` and `end_pass` are the steps before and after
it: a change by another thread meanwhile is handled in `end_pass`.
"""
cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from kafwire.records._batch_header cimport BATCH_HEADER
from kafwire.memory._buffer cimport kw_buf, kw_buf_unref
from kafwire.producer.buffer._batch cimport MIXED, ProducerBatch
from kafwire.producer.buffer._partitioner cimport (
    ELSEWHERE, HASH_NONE, SPREAD_FUNCTION, SPREAD_STICKY, PartitionWeights, StickyState, ask, assign, by_key, move_on,
)
from kafwire.producer.buffer._queues cimport (
    CLOSED, DONE, ENDED, FIRST_RESERVE, GONE, NO_ROOM, OTHER_ERA, REFUSED, TOO_LARGE, PartitionQueue, Queues, Topic,
    stick,
)
from kafwire.records._arrow_rows cimport Rows, RowsView, bytes_at, number_at
from kafwire.records._compress cimport runs_python
from kafwire.records._encode cimport (
    WRITER_BAD_ROW, WRITER_TOO_LARGE, BatchWriter, writer_append_rows, writer_close, writer_open, writer_seal,
)
from kafwire.runtime._interfaces cimport wall_ms

from kafwire.errors import ConfigError, KafkaError, ProtocolError, RecordTooLargeError, no_partition

cdef enum:
    ROWS_AT_ONCE = 16  # most batches that one pass encodes


# One batch that a pass fills.
cdef struct _Fill:
    BatchWriter writer
    kw_buf *wire  # the sealed batch, if it is full
    bint full
    size_t bytes  # added in this pass
    int32_t count  # rows added in this pass
    int32_t first  # index in the batch of the first row added in this pass
    int verdict  # DONE, or the status with which the batch fails


# The state of one pass without the GIL.
cdef struct _Pass:
    _Fill fills[ROWS_AT_ONCE]
    int32_t n  # used entries of `fills`
    int32_t limit
    int64_t position  # next row, in the plan's rows
    int64_t end
    int64_t bad_row
    int failed
    bint seals


@cython.final
cdef class RowPlan:
    def __dealloc__(self):
        free(self.index)
        free(self.bounds)

    @property
    def finished(self):
        """True if every row is in a batch."""
        return self.group >= self.groups

    cdef bint go_on(self) noexcept:
        """Advance to the group of the next row; False if no row is left."""
        while self.group < self.groups and self.position >= self.bounds[self.group + 1]:
            self.group += 1
        return self.group < self.groups

    cdef int placed(self) noexcept:
        """How many rows have a partition named by the user: 0: none, 1: all, 2: perhaps some."""
        if self.partition is not None:
            return 1
        if not self.rows.view.partition.form:
            return 0
        return 1 if self.rows.view.partition.validity is NULL else 2


# ---- plans


cdef RowPlan plan_table(Queues queues, str topic_name, Rows rows, partition, int64_t first_row,
                        int64_t transaction_generation, bytes chosen):
    cdef Topic topic = queues.topics.get(topic_name)
    cdef RowPlan plan
    cdef int32_t partitions
    if topic is None:
        return None
    partitions = len(topic.queues)
    if partition is not None and not 0 <= partition < partitions:
        raise no_partition(topic_name, partitions, partition)
    if rows.view.length > INT32_MAX:
        raise ConfigError(f"a chunk has {rows.view.length} rows: send at most {INT32_MAX} rows at once")
    plan = RowPlan.__new__(RowPlan)
    plan.topic = topic
    plan.partition = partition
    plan.rows = rows
    plan.first_row = first_row
    plan.transaction_generation = transaction_generation
    group_rows(queues, plan, partitions, chosen)
    return plan


cdef int group_rows(Queues queues, RowPlan plan, int32_t partitions, bytes chosen) except -1:
    """Group the plan's rows by partition; they are one group if no row needs a look of its own."""
    cdef int32_t *numbers = NULL if chosen is None else <int32_t *> PyBytes_AS_STRING(chosen)
    cdef int64_t n = plan.rows.view.length if chosen is None else len(chosen) // <int64_t> sizeof(int32_t)
    cdef bint keyed = queues.rule.hash != HASH_NONE and plan.rows.view.key.form
    cdef bint is_single
    plan.fixed = -1 if plan.partition is None else plan.partition
    plan.groups = 1
    plan.bounds = <int64_t *> calloc(partitions + 2, sizeof(int64_t))
    if plan.bounds is NULL:
        raise MemoryError
    plan.bounds[1] = n
    if n == 0:
        plan.group = 1
        return 0
    if plan.partition is None and not keyed and not plan.rows.view.partition.form:
        plan.fixed = by_key(&queues.rule, NULL, -1, partitions)
        plan.sticks = plan.fixed < 0 and queues.rule.spread == SPREAD_STICKY
    is_single = plan.fixed >= 0 or plan.sticks
    if is_single and numbers is NULL:
        return 0
    plan.index = <int32_t *> malloc((1 if is_single else 2) * n * sizeof(int32_t))
    if plan.index is NULL:
        raise MemoryError
    if is_single:
        memcpy(plan.index, numbers, n * sizeof(int32_t))
        return 0
    plan.groups = partitions
    assign_rows(queues, plan, numbers, n, plan.index + n)
    sort_rows(plan, numbers, n, plan.index + n)
    return 0


cdef int assign_rows(Queues queues, RowPlan plan, const int32_t *numbers, int64_t n, int32_t *assigned) except -1:
    """Write the partition of each row to `assigned`."""
    cdef Topic topic = plan.topic
    cdef const RowsView *view = &plan.rows.view
    cdef int64_t bad
    cdef int64_t own = -1
    cdef PartitionWeights weights = topic.weights
    cdef StickyState sticky_state = topic.sticky_state
    cdef int32_t partitions = plan.groups
    with nogil:
        bad = assign(
            view, numbers, n, &queues.rule, &weights.table, partitions, queues.batch_size, &sticky_state, assigned
        )
    if bad >= 0:
        number_at(&view.partition, bad, &own)
        raise no_partition(
            topic.name, partitions, own,
            f"row {plan.first_row + bad}: its partition does not exist; topic {topic.name!r} has 0 to {partitions - 1}",
        )
    if queues.rule.spread == SPREAD_FUNCTION:
        ask_for_rows(queues.function, plan, numbers, n, assigned)
    if topic.weights is weights:  # new weights came meanwhile: this sticky state is for the old ones
        topic.sticky_state = sticky_state
    return 0


cdef int ask_for_rows(function, RowPlan plan, const int32_t *numbers, int64_t n, int32_t *assigned) except -1:
    """Ask the user's partitioner for the rows that the rule does not place."""
    cdef const uint8_t *data
    cdef int64_t i, j, size
    for j in range(n):
        if assigned[j] == ELSEWHERE:
            i = j if numbers is NULL else numbers[j]
            bytes_at(&plan.rows.view.key, i, &data, &size)
            assigned[j] = ask(
                function, plan.topic.name, len(plan.topic.queues), plan.topic.weights, data, size,
                f"row {plan.first_row + i}: ",
            )
    return 0


cdef void sort_rows(RowPlan plan, const int32_t *numbers, int64_t n, const int32_t *assigned) noexcept:
    """Sort the rows by partition, stable (counting sort): the rows of each partition are a group."""
    cdef int32_t *index = plan.index
    cdef int64_t *bounds = plan.bounds
    cdef int32_t groups = plan.groups
    cdef int32_t g
    cdef int64_t i
    with nogil:
        bounds[1] = 0
        for i in range(n):
            bounds[assigned[i] + 2] += 1
        for g in range(2, groups + 1):
            bounds[g] += bounds[g - 1]
        for i in range(n):
            index[bounds[assigned[i] + 1]] = <int32_t> i if numbers is NULL else numbers[i]
            bounds[assigned[i] + 1] += 1


# ---- passes


cdef bint add_table(Queues queues, RowPlan plan, list parts) except -1:
    cdef Topic topic = plan.topic
    cdef bint finished = False
    queues.passes += 1
    try:
        while True:
            if plan.topic.retired and not plan_again(queues, plan):
                return False
            topic = plan.topic
            topic.passes += 1
            try:
                finished = run_passes(queues, plan, parts)
            finally:
                topic.passes -= 1
            if finished or not topic.retired:
                return finished
    finally:
        queues.passes -= 1
        # The end of the transaction, or the move to the recreated topic, waits for this.
        if queues.send_gate is not None or topic.retired:
            queues.post()


cdef bint plan_again(Queues queues, RowPlan plan) except -1:
    """Plan the rest of the rows again: the topic was recreated while rows were added to it.

    Returns False if the topic has become unknown.
    """
    cdef int64_t end = plan.bounds[plan.groups]
    cdef int64_t left = end - plan.position if plan.group < plan.groups else 0
    cdef bytes numbers = PyBytes_FromStringAndSize(NULL, left * <int64_t> sizeof(int32_t))
    cdef int32_t *out = <int32_t *> PyBytes_AS_STRING(numbers)
    cdef int64_t i
    cdef RowPlan again
    for i in range(left):
        out[i] = <int32_t> (plan.position + i) if plan.index is NULL else plan.index[plan.position + i]
    again = plan_table(
        queues, plan.topic.name, plan.rows, plan.partition, plan.first_row, plan.transaction_generation, numbers
    )
    if again is None:
        return False
    plan.index, again.index = again.index, plan.index
    plan.bounds, again.bounds = again.bounds, plan.bounds
    plan.topic = again.topic
    plan.groups = again.groups
    plan.group = again.group
    plan.position = 0
    plan.fixed = again.fixed
    plan.sticks = again.sticks
    return True


cdef bint run_passes(Queues queues, RowPlan plan, list parts) except -1:
    """Run passes until all rows are in batches, or there is no room."""
    cdef int64_t timestamp = wall_ms(queues.clock)
    while plan.go_on():
        if not run_pass(queues, plan, timestamp, parts):
            return False
    return True


cdef bint run_pass(Queues queues, RowPlan plan, int64_t timestamp, list parts) except -1:
    """Run one pass; False: there is no room, or the topic has become unknown."""
    cdef _Pass work
    cdef list spares = []
    cdef int status = begin_pass(queues, plan, &work)
    if status == NO_ROOM or status == GONE:
        return False
    if status != DONE:
        raise queues.problem(status, 0)
    try:
        encode_pass(queues, plan, timestamp, &work)
        make_spares(queues, work.n - (plan.filled is not None), spares)
    finally:
        end_pass(queues, plan, &work, spares)
        tell_of_pass(queues, plan, &work, spares, parts)
    if work.failed:
        raise problem_of_rows(work.failed, plan.first_row + work.bad_row)
    return True


cdef int begin_pass(Queues queues, RowPlan plan, _Pass *work) noexcept:
    """Before rows are encoded: find their queue, and take its open batch out.

    No other thread may fill that batch while the GIL is released. It keeps its place in the queue: records that others
    send meanwhile come after those they sent before, and a flush covers it.
    """
    cdef Topic topic = plan.topic
    cdef int64_t number
    cdef ProducerBatch batch
    if topic.retired:
        return GONE
    if queues.budget.closed is not None:
        return CLOSED
    if queues.send_gate is not None:
        return REFUSED
    if plan.transaction_generation != queues.transaction_generation:
        return OTHER_ERA
    if queues.budget.lacks(queues.batch_size):
        queues.is_short = True
        queues.post()
        return NO_ROOM
    if plan.sticks:
        number = stick(queues, topic, 1)
    else:
        number = plan.group if plan.fixed < 0 else plan.fixed
    memset(work, 0, sizeof(_Pass))
    work.limit = <int32_t> min(
        max((queues.budget.limit - min(queues.budget.used, queues.budget.limit)) // queues.batch_size, <size_t> 1),
        <size_t> ROWS_AT_ONCE,
    )
    work.position = plan.position
    work.end = plan.bounds[plan.group + 1]
    work.bad_row = -1
    # The engine calls a codec that is written in Python, in `prepare`: no signal handler runs there.
    work.seals = not runs_python(queues.codec)
    plan.queue = <PartitionQueue> topic.queues[number]
    batch = plan.filled = plan.queue.open
    if batch is not None:
        plan.queue.open = None
        plan.queue.sealed.append(batch)
        batch.filling = True
        work.fills[0].writer = batch.writer
        memset(&batch.writer, 0, sizeof(BatchWriter))
    return DONE


cdef void encode_pass(Queues queues, RowPlan plan, int64_t timestamp, _Pass *work) noexcept:
    cdef const RowsView *view = &plan.rows.view
    cdef const int32_t *index = plan.index
    cdef size_t batch_size = queues.batch_size
    cdef uint16_t attributes = queues.attributes
    cdef int codec = queues.codec
    cdef int level = queues.level
    with nogil:
        encode_rows(work, view, index, batch_size, timestamp, attributes, codec, level)


cdef void encode_rows(_Pass *work, const RowsView *view, const int32_t *index, size_t batch_size, int64_t timestamp,
                      uint16_t attributes, int codec, int level) noexcept nogil:
    """Encode rows into as many batches as there is room for."""
    cdef _Fill *fill
    cdef size_t before
    cdef int32_t records
    cdef int64_t added
    while work.position < work.end and work.n < work.limit and not work.failed:
        fill = &work.fills[work.n]
        if fill.writer.buf is NULL:
            work.failed = writer_open(
                &fill.writer, batch_size if work.end - work.position >= 64 else <size_t> FIRST_RESERVE
            )
            if work.failed:
                return
            fill.writer.attributes = attributes
        before = fill.writer.buf.size
        records = fill.writer.count
        added = writer_append_rows(
            &fill.writer, view, index, work.position, work.end, batch_size, timestamp, &work.bad_row
        )
        if added < 0:
            work.failed = <int> added
            added = work.position + fill.writer.count - records
        fill.count = <int32_t> (added - work.position)
        fill.bytes = fill.writer.buf.size - before
        work.position = added
        if work.position < work.end and not work.failed:
            fill.full = True
            if work.seals:
                work.failed = writer_seal(&fill.writer, codec, level, &fill.wire, True)
                fill.full = not work.failed
        work.n += 1


cdef int make_spares(Queues queues, Py_ssize_t needed, list spares) except -1:
    """Make batches for the new batches that a pass encoded."""
    cdef int64_t now = queues.now_ms()
    while len(spares) < needed:
        spares.append(ProducerBatch.__new__(ProducerBatch, queues.budget, None, now))
    return 0


cdef void end_pass(Queues queues, RowPlan plan, _Pass *work, list spares) noexcept:
    """After rows are encoded: put the encoded batches into the queue.

    If too few spare batches could be made, their rows and all later ones are not sent.
    """
    cdef Topic topic = plan.topic
    cdef PartitionQueue queue = plan.queue
    cdef ProducerBatch batch
    cdef bint goes_on = plan.filled is not None
    cdef int32_t has = <int32_t> len(spares) + goes_on
    cdef int32_t k
    cdef _Fill *fill
    for k in range(work.n if work.n else goes_on):
        fill = &work.fills[k]
        if k >= has:
            writer_close(&fill.writer)
            kw_buf_unref(fill.wire)
            continue
        if k == 0 and goes_on:
            batch = plan.filled
        else:
            if k and plan.sticks:
                move_on(&topic.sticky_state, &topic.weights.table)
                queue = <PartitionQueue> topic.queues[topic.sticky_state.sticky]
            batch = <ProducerBatch> spares[k - goes_on]
            batch.queue = queue
        if plan.sticks:
            topic.sticky_state.stuck += fill.bytes
            if fill.full:  # one full batch is enough, even if another thread filled it
                topic.sticky_state.stuck = max(topic.sticky_state.stuck, queues.batch_size)
        plan.position += fill.count
        adopt(queues, batch, queue, fill, plan.placed())
    work.n = min(work.n, has)


cdef void adopt(Queues queues, ProducerBatch batch, PartitionQueue queue, _Fill *fill, int placed) noexcept:
    """Take a batch back from a pass: sealed, or open again; set `verdict` if the batch must fail.

    `placed`: see `RowPlan.placed`.
    """
    cdef bint queued = batch.filling
    batch.filling = False
    fill.first = batch.count
    if batch.done or queues.ended is not None:  # its producer was closed meanwhile
        writer_close(&fill.writer)
        kw_buf_unref(fill.wire)
        fill.verdict = ENDED
        return
    batch.writer = fill.writer
    batch.wire = fill.wire
    batch.count += fill.count
    if placed:
        batch.placed = batch.placed + fill.count if placed == 1 else MIXED
    batch.charge(fill.bytes)
    if batch.count == 1 and fill.bytes + BATCH_HEADER > max(queues.max_request_size, queues.batch_size):
        batch.closed = True
        fill.verdict = TOO_LARGE
    elif fill.full:
        batch.recharge()
        queues.close_batch(batch, queued)
    elif batch.count == 0:
        pass  # its first row was invalid
    elif queued and (queue.open is not None or batch.closed or queue.sealed[len(queue.sealed) - 1] is not batch):
        queues.close_batch(batch, queued)
    elif queued:
        queue.sealed.pop()
        queue.open = batch
    else:
        if queue.open is not None:
            queues.close_batch(queue.open)
        queue.open = batch
        queues.linger(batch)


cdef int tell_of_pass(Queues queues, RowPlan plan, _Pass *work, list spares, list parts) except -1:
    """Fail batches by their verdict, list the parts and notify the waiters of the pass, all even if one raises."""
    cdef ProducerBatch batch
    cdef bint goes_on = plan.filled is not None
    cdef _Fill *fill
    cdef int32_t k
    problem = None
    for k in range(work.n if work.n else goes_on):
        fill = &work.fills[k]
        if fill.verdict == DONE:
            continue
        batch = plan.filled if k == 0 and goes_on else <ProducerBatch> spares[k - goes_on]
        try:
            if fill.verdict == TOO_LARGE:
                batch.fail(queues.too_large(fill.bytes, plan.topic.name))
            elif not batch.done:
                batch.fail(KafkaError(queues.ended))
        except BaseException as error:
            problem = error if problem is None else problem
    try:
        queues.budget.settle_up()
    except BaseException as error:
        problem = error if problem is None else problem
    for k in range(work.n):
        fill = &work.fills[k]
        batch = plan.filled if k == 0 and goes_on else <ProducerBatch> spares[k - goes_on]
        if fill.count:
            parts.append((batch, fill.first, fill.count))
    plan.filled = None
    if problem is not None:
        raise problem
    return 0


cdef object problem_of_rows(int failed, int64_t row):
    if failed == WRITER_BAD_ROW:
        return ProtocolError(
            f"row {row}: a timestamp out of range, or a header without a key; it is not sent, nor are the rows after "
            "it in its partition"
        )
    if failed == WRITER_TOO_LARGE:
        return RecordTooLargeError(
            f"row {row} is larger than 2 GiB; it is not sent, nor are the rows after it in its partition"
        )
    return MemoryError(f"rows could not be encoded (code {failed})")
