"""`producer.transactions.state` by itself: the next request, the effect of each response, the meaning of each error."""

import pytest

from kafwire.errors import (
    ERROR_CODES,
    KafkaConnectionError,
    KafkaError,
    ProducerFencedError,
    TransactionAbortableError,
    TransactionError,
    TransactionFatalError,
    TransactionStateError,
    broker_error,
)
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.actions import Action, AddOffsets, AddPartitions, CommitOffsets, End, Initialize
from kafwire.producer.transactions.error_meanings import Meaning, meaning_of
from kafwire.producer.transactions.state import State, Transaction
from kafwire.types import ConsumerGroupMetadata

FIRST, SECOND = Identity(7, 0), Identity(7, 1)
HERE, THERE = ("t", 0), ("t", 1)
DONE, RETRY, MOVED, ABORT, FATAL, FENCED = Meaning
NEVER = Identity(-1, -1)


def ready(version: int = 1) -> Transaction:
    it = Transaction("x")
    it.initialize()
    assert it.next(settled=True) == Initialize(None)
    assert it.on_response(Initialize(None), 0, FIRST) is DONE
    assert (it.state, it.identity) == (State.READY, FIRST)
    if version != it.version:
        assert it.begin(version)
        it.abort()
        assert it.next(settled=True) is None
    return it


def state_of(it: Transaction) -> State:
    """Its state now: for a type checker it is still what was seen last."""
    return it.state


def begun(version: int = 1, *, added: bool = True) -> Transaction:
    it = ready(version)
    assert it.begin(version)
    if added and version == 1:
        assert not it.admits(HERE)
        assert it.on_response(AddPartitions((HERE,)), {HERE: 0}) is DONE
    assert it.admits(HERE) or not added
    return it


def offsets(group: str = "g") -> CommitOffsets:
    return CommitOffsets(ConsumerGroupMetadata(group), {HERE: 1})


def error(code: int) -> KafkaError:
    return broker_error(code, "refused")


# --- what codes mean ------------------------------------------------------------------------------------------------

# As Java's TransactionManager has it (its handlers of each response), for codes that are not retried.
EVERYWHERE = {
    0: DONE,
    15: MOVED,
    16: MOVED,
    47: FENCED,
    90: FENCED,
    48: FATAL,
    53: FATAL,
    49: ABORT,
    59: ABORT,
    120: ABORT,
    51: RETRY,
    14: RETRY,
}
OF_ONE = {
    Initialize: {31: FATAL, 29: FATAL, 12345: FATAL, -1: FATAL},
    AddPartitions: {55: RETRY, 3: RETRY, 29: ABORT, 12345: ABORT, -1: ABORT, 7: RETRY},
    AddOffsets: {30: ABORT, 55: ABORT, 12345: ABORT},
    CommitOffsets: {7: MOVED, 47: ABORT, 90: ABORT, 43: FATAL, 3: RETRY, 30: ABORT, 22: ABORT, 25: ABORT, 82: ABORT},
    End: {29: FATAL, 43: FATAL, 55: FATAL, 12345: FATAL},
}


@pytest.mark.parametrize("kind", OF_ONE)
def test_the_meaning_of_each_code(kind: type[Action]) -> None:
    for code, meaning in {**EVERYWHERE, **OF_ONE[kind]}.items():
        assert meaning_of(kind, code) is meaning, code
    listed = {0, 15, 16, 55, 7}
    for code, known in ERROR_CODES.items():
        if known.retriable and code not in listed:
            assert meaning_of(kind, code) is EVERYWHERE.get(code, RETRY), code


def test_the_worst_of_several_codes_counts() -> None:
    for codes, worst in (
        ({HERE: 0, THERE: 55}, RETRY),
        ({HERE: 55, THERE: 29}, ABORT),
        ({HERE: 53, THERE: 29}, FATAL),
        ({HERE: 53, THERE: 90}, FENCED),
        ({HERE: 16, THERE: 55}, MOVED),
        ({}, DONE),
    ):
        it = ready()
        it.begin(1)
        assert it.on_response(AddPartitions((HERE, THERE)), codes) is worst


@pytest.mark.parametrize("code", [22, 113, 134])
def test_offsets_that_are_refused_for_one_partition_abort_the_transaction(code: int) -> None:
    """A coordinator may take those of the others (KIP-1251): the transaction holds records of all."""
    it = begun()
    commit = CommitOffsets(ConsumerGroupMetadata("g", 7, "m"), {HERE: 1, THERE: 2})
    it.add_offsets(commit)
    assert it.on_response(commit, {HERE: 0, THERE: code}) is ABORT
    assert it.state is State.ABORTABLE_ERROR
    assert it.is_done(commit)
    with pytest.raises(TransactionAbortableError, match="t-1"):
        it.commit()


# --- one transaction ------------------------------------------------------------------------------------------------


def test_a_transaction_of_version_1() -> None:
    it = begun(added=False)
    assert it.number == 1
    assert it.next(settled=True) == AddPartitions((HERE,))
    assert it.has_pending
    assert not it.admits(THERE)
    assert it.next(settled=False) == AddPartitions((HERE, THERE))
    assert it.on_response(AddPartitions((HERE, THERE)), {HERE: 0, THERE: 51}) is RETRY
    assert it.admits(HERE)
    assert not it.admits(THERE)
    assert it.next(settled=True) == AddPartitions((THERE,))
    assert it.on_response(AddPartitions((THERE,)), {THERE: 0}) is DONE
    assert not it.has_pending
    assert it.next(settled=True) is None
    it.commit()
    assert state_of(it) is State.COMMITTING
    it.commit()  # again
    assert it.next(settled=False) is None
    assert it.next(settled=True) == End(True)
    assert it.ended == 0
    assert it.on_response(End(True), 0, NEVER) is DONE
    assert (it.state, it.identity, it.ended) == (State.READY, FIRST, 1)
    assert it.begin(1)
    assert it.number == 2
    assert not it.admits(HERE)  # it is in the transaction before, and not in this one


def test_a_transaction_of_version_2_brings_the_next_epoch() -> None:
    it = begun(2)
    assert not it.has_pending
    assert it.next(settled=True) is None
    it.commit()
    assert it.next(settled=True) == End(True)
    it.on_response(End(True), 0, SECOND)
    assert (it.state, it.identity) == (State.READY, SECOND)


def test_a_transaction_that_never_began_needs_no_request() -> None:
    for version in (1, 2):
        it = begun(version, added=False) if version == 1 else ready(2)
        if version == 2:
            assert it.begin(2)
            it.commit()
        else:
            it.abort()
        assert it.next(settled=True) is None
        assert state_of(it) is State.READY
        assert it.ended == it.number


def test_an_abort_forgets_pending_partitions_and_offsets() -> None:
    it = begun()
    assert not it.admits(THERE)
    commit = offsets()
    it.add_offsets(commit)
    it.abort()
    assert not it.has_pending
    assert it.is_done(commit)
    it.abort()  # again
    assert it.next(settled=False) is None
    assert it.next(settled=True) == End(False)


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_go_in_their_order_group_by_group(version: int) -> None:
    it = begun(version)
    first, second, other = offsets(), offsets(), offsets("h")
    for commit in (first, second, other):
        it.add_offsets(commit)
    it.commit()
    for commit, group in ((first, "g"), (second, ""), (other, "h")):
        if version == 1 and group:
            assert it.next(settled=True) == AddOffsets(group)
            assert it.on_response(AddOffsets(group), 0) is DONE
        assert it.next(settled=True) is commit
        assert not it.is_done(commit)
        assert it.on_response(commit, {HERE: 0}) is DONE
        assert it.is_done(commit)
    assert it.next(settled=True) == End(True)
    it.on_response(End(True), 0, SECOND if version == 2 else NEVER)
    it.begin(version)
    it.add_offsets(first)
    assert it.next(settled=True) == (AddOffsets("g") if version == 1 else first)  # groups too are of one transaction


def test_a_response_to_abandoned_offsets_has_no_effect() -> None:
    it = begun()
    commit = offsets()
    it.add_offsets(commit)
    it.abort()
    assert it.on_response(commit, {HERE: 0}) is DONE
    assert state_of(it) is State.ABORTING


# --- fresh epochs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("action", [AddPartitions((HERE,)), AddOffsets("g"), End(True)])
def test_a_lost_request_needs_a_new_epoch(action: Action) -> None:
    it = begun(added=False)
    it.lost(action)
    it.abort()
    assert it.next(settled=True) == End(False)
    it.on_response(End(False), 0, NEVER)
    assert state_of(it) is State.INITIALIZING
    assert it.next(settled=True) == Initialize(FIRST)
    assert it.on_response(Initialize(FIRST), 0, SECOND) is DONE
    assert (it.state, it.identity) == (State.READY, SECOND)
    assert it.begin(1)
    it.abort()
    assert it.next(settled=True) is None
    assert state_of(it) is State.READY  # once is enough


def test_a_lost_initialization_is_asked_again() -> None:
    it = Transaction("x")
    it.initialize()
    it.lost(Initialize(None))
    assert it.next(settled=True) == Initialize(None)
    it.on_response(Initialize(None), 0, FIRST)
    it.begin(1)
    it.abort()
    assert it.next(settled=True) is None
    assert state_of(it) is State.READY


def test_a_late_response_to_an_initialization_changes_nothing() -> None:
    it = ready()
    it.on_response(Initialize(None), 0, SECOND)
    assert (it.state, it.identity) == (State.READY, FIRST)


@pytest.mark.parametrize(("numbered", "state"), [(True, State.INITIALIZING), (False, State.READY)])
def test_a_numbered_batch_that_was_given_up_asks_for_a_fresh_epoch(numbered: bool, state: State) -> None:
    it = begun()
    it.batch_failed(KafkaConnectionError("gone"), numbered=numbered)
    assert state_of(it) is State.ABORTABLE_ERROR
    it.abort()
    it.on_response(End(False), 0, NEVER)
    assert it.state is state


def test_the_epoch_that_an_end_brings_is_fresh() -> None:
    it = begun(2)
    it.lost(End(True))
    it.commit()
    it.on_response(End(True), 0, SECOND)
    assert state_of(it) is State.READY
    for same in (SECOND, NEVER, None):
        it.begin(2)
        it.admits(HERE)
        it.lost(End(True))
        it.commit()
        it.on_response(End(True), 0, same)
        assert state_of(it) is State.INITIALIZING
        it.on_response(Initialize(SECOND), 0, SECOND)


def test_another_version_takes_a_fresh_epoch_first() -> None:
    it = ready()
    assert it.begin(2)  # nothing was sent yet
    assert it.version == 2
    it.commit()
    it.next(settled=True)
    assert not it.begin(1)
    assert (it.state, it.version, it.number) == (State.INITIALIZING, 1, 1)
    it.on_response(Initialize(FIRST), 0, SECOND)
    assert it.begin(1)
    assert it.number == 2


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind", "state"),
    [
        (29, TransactionAbortableError, State.ABORTABLE_ERROR),
        (120, TransactionAbortableError, State.ABORTABLE_ERROR),
        (48, TransactionFatalError, State.FATAL_ERROR),
        (90, ProducerFencedError, State.FATAL_ERROR),
    ],
)
def test_a_refused_request_raises_its_error_from_then_on(code: int, kind: type[KafkaError], state: State) -> None:
    it = begun()
    commit = offsets()
    it.add_offsets(commit)
    assert not it.admits(THERE)
    it.on_response(AddPartitions((THERE,)), {THERE: code})
    assert it.state is state
    assert type(it.error) is kind
    assert "t-1" in str(it.error)
    assert it.error is not None
    assert it.error.__cause__ is not None
    assert it.is_done(commit)
    assert not it.has_pending
    assert not it.admits(HERE)
    assert it.next(settled=True) is None
    with pytest.raises(kind):
        it.commit()
    with pytest.raises(kind):
        it.add_offsets(offsets())
    if state is State.FATAL_ERROR:
        for call in (it.abort, it.initialize, lambda: it.begin(1)):
            with pytest.raises(kind):
                call()
        return
    it.abort()
    assert it.next(settled=True) == End(False)
    it.on_response(End(False), 0, NEVER)
    assert state_of(it) is State.READY
    assert not it.error


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (KafkaConnectionError("gone"), TransactionAbortableError),
        (error(10), TransactionAbortableError),
        (error(47), TransactionAbortableError),
        (error(90), ProducerFencedError),
        (error(53), TransactionFatalError),
        (error(31), TransactionFatalError),
    ],
)
def test_the_error_after_a_failed_batch(failure: KafkaError, kind: type[KafkaError]) -> None:
    for committing in (False, True):
        it = begun()
        if committing:
            it.commit()
        it.batch_failed(failure, numbered=False)
        assert type(it.error) is kind


def test_a_batch_that_fails_while_aborting_changes_nothing() -> None:
    it = begun()
    it.abort()
    it.batch_failed(error(90), numbered=False)
    assert (it.state, it.error) == (State.ABORTING, None)


def test_while_aborting_abortable_codes_change_nothing() -> None:
    it = begun()
    it.abort()
    assert it.on_response(AddPartitions((THERE,)), {THERE: 29}) is ABORT
    assert (it.state, it.error) == (State.ABORTING, None)
    it.on_response(AddPartitions((THERE,)), {THERE: 90})
    assert type(it.error) is ProducerFencedError


def test_an_abort_goes_on_after_an_abortable_code() -> None:
    it = begun()
    it.abort()
    assert it.on_response(End(False), 120) is RETRY
    assert it.next(settled=True) == End(False)
    it.on_response(End(False), 0, NEVER)
    assert state_of(it) is State.READY


@pytest.mark.parametrize("code", [49, 59])
def test_a_coordinator_that_knows_nothing_has_nothing_to_abort(code: int) -> None:
    it = begun()
    it.abort()
    it.on_response(End(False), code)
    assert (it.state, it.ended) == (State.INITIALIZING, 1)
    it = begun()
    it.commit()
    it.on_response(End(True), code)
    assert state_of(it) is State.ABORTABLE_ERROR
    it.abort()
    assert it.next(settled=True) == Initialize(FIRST)  # it said so: it is not asked to end what it does not know


def test_an_abort_of_a_transaction_that_may_not_have_begun_accepts_invalid_txn_state() -> None:
    it = begun(added=False)
    it.lost(AddPartitions((HERE,)))
    it.abort()
    it.on_response(End(False), 48)
    assert state_of(it) is State.INITIALIZING
    certain = begun()
    certain.abort()
    certain.on_response(End(False), 48)
    assert certain.state is State.FATAL_ERROR


@pytest.mark.parametrize("action", [AddOffsets("g"), offsets()])
def test_a_coordinator_cannot_forget_an_accepted_request(action: Action) -> None:
    it = begun(added=False)
    it.add_offsets(offsets())
    it.on_response(action, 0)
    it.abort()
    assert it.next(settled=True) == End(False)
    it.on_response(End(False), 48)
    assert state_of(it) is State.FATAL_ERROR


def test_a_transaction_that_version_2_may_have_begun_is_ended() -> None:
    for version, asked in ((1, None), (2, End(False))):
        it = ready(version)
        it.begin(version)
        commit = offsets()
        it.add_offsets(commit)
        it.on_response(commit, {HERE: 22})  # refused by the group; the transaction may have been begun all the same
        it.abort()
        assert it.next(settled=True) == asked


def test_a_commit_in_version_2_whose_state_is_wrong_was_aborted() -> None:
    it = begun(2)
    it.commit()
    assert it.on_response(End(True), 48) is ABORT
    assert "transaction_timeout_ms" in str(it.error)
    assert state_of(it) is State.ABORTABLE_ERROR
    it = begun(1)
    it.commit()
    assert it.on_response(End(True), 48) is FATAL
    it = begun(2)
    it.on_response(offsets(), {HERE: 48})
    assert state_of(it) is State.FATAL_ERROR


@pytest.mark.parametrize("code", [48, 120])
def test_an_abort_in_version_2_after_a_commit_whose_state_is_wrong_ends(code: int) -> None:
    """The coordinator has no open transaction of this epoch: InitProducerId with the epoch reports fencing."""
    it = begun(2)
    commit = offsets()
    it.add_offsets(commit)
    it.on_response(commit, {HERE: 0})
    it.commit()
    assert it.on_response(End(True), code) is ABORT
    it.abort()
    assert it.next(settled=True) == End(False)
    assert it.on_response(End(False), 48) is DONE
    assert it.next(settled=True) == Initialize(it.identity)
    assert it.identity is not None
    it.on_response(Initialize(it.identity), 90)
    assert type(it.error) is ProducerFencedError


@pytest.mark.parametrize("code", [49, 59, 120])
def test_an_abortable_code_for_the_first_producer_id_names_no_transaction(code: int) -> None:
    it = Transaction("x")
    it.initialize()
    it.on_response(Initialize(None), code)
    assert (it.state, type(it.error)) == (State.UNINITIALIZED, TransactionError)
    assert it.error is not None
    assert (it.error.retriable, it.error.abortable, it.error.fatal) == (True, False, False)
    assert "call init_transactions() again" in str(it.error)
    assert "abort" not in str(it.error).replace(ERROR_CODES[code].message, "").replace("ABORTABLE", "")
    it.initialize()
    it.on_response(Initialize(None), 0, FIRST)
    assert state_of(it) is State.READY
    it.begin(2)
    assert it.admits(HERE)
    it.commit()
    assert it.next(settled=True) == End(True)


def test_an_abortable_code_for_the_next_epoch_is_settled_by_an_abort() -> None:
    it = begun()
    it.commit()
    it.next(settled=True)
    it.on_response(End(True), 0, NEVER)
    assert not it.begin(2)
    it.on_response(Initialize(FIRST), 120)
    with pytest.raises(TransactionAbortableError):
        it.begin(2)
    it.abort()
    assert it.next(settled=True) == Initialize(FIRST)
    it.on_response(Initialize(FIRST), 0, SECOND)
    assert it.begin(2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_refused_epoch_is_abortable_until_the_coordinator_reports_fencing(version: int) -> None:
    it = begun(version)
    early = it.batch_failed(error(47), numbered=True)
    assert type(early) is TransactionAbortableError
    assert early.__cause__ is not None
    it.abort()
    assert type(it.batch_failed(error(47), numbered=True)) is TransactionAbortableError
    assert it.next(settled=True) == End(False)
    assert it.on_response(End(False), 90) is FENCED
    for code in (47, 90):
        assert type(it.batch_failed(error(code), numbered=True)) is ProducerFencedError


@pytest.mark.parametrize("failure", [KafkaConnectionError("gone"), error(10), error(29), error(59)])
def test_an_error_of_the_batch_itself_stays_the_error_of_its_deliveries(failure: KafkaError) -> None:
    assert begun().batch_failed(failure, numbered=True) is failure


@pytest.mark.parametrize("code", [47, 90])
@pytest.mark.parametrize("version", [1, 2])
def test_a_group_coordinator_does_not_report_fencing(version: int, code: int) -> None:
    it = begun(version)
    commit = offsets()
    it.add_offsets(commit)
    assert it.on_response(commit, {HERE: code}) is ABORT
    it.abort()
    assert it.next(settled=True) == End(False)


def test_the_first_producer_id_may_be_asked_for_again() -> None:
    it = Transaction("x")
    it.initialize()
    it.on_response(Initialize(None), 53)
    assert state_of(it) is State.UNINITIALIZED
    assert type(it.error) is TransactionFatalError
    it.initialize()
    assert state_of(it) is State.INITIALIZING
    assert not it.error
    it.on_response(Initialize(None), 0, FIRST)
    it.begin(1)
    it.lost(End(True))
    it.abort()
    it.on_response(End(False), 0, NEVER)
    it.on_response(Initialize(FIRST), 90)
    assert state_of(it) is State.FATAL_ERROR


def test_calls_in_a_wrong_state_name_the_right_call() -> None:
    it = Transaction("x")
    for call in (it.commit, it.abort, lambda: it.begin(1), lambda: it.add_offsets(offsets())):
        with pytest.raises(TransactionStateError, match="init_transactions"):
            call()
    it = ready()
    for call in (it.commit, it.abort):
        with pytest.raises(TransactionStateError, match="begin a transaction first"):
            call()
    assert not it.admits(HERE)
    assert not it.has_pending
    it = begun()
    it.initialize()
    assert state_of(it) is State.IN_TRANSACTION
    with pytest.raises(TransactionStateError, match="commit or abort it first"):
        it.begin(1)
    it.commit()
    assert it.admits(HERE)  # records sent before the commit still go
    for call in (it.abort, lambda: it.add_offsets(offsets())):
        with pytest.raises(TransactionStateError, match="commit_transaction"):
            call()
    it = begun()
    it.abort()
    with pytest.raises(TransactionStateError, match="abort_transaction"):
        it.commit()
    it = begun()
    it.batch_failed(error(10), numbered=False)
    it.abort()
    with pytest.raises(TransactionStateError, match="abort_transaction"):  # not what made it abort
        it.commit()


def test_a_defect_ends_it() -> None:
    it = begun()
    it.break_off(KafkaError("broken"))
    assert state_of(it) is State.FATAL_ERROR
    with pytest.raises(TransactionFatalError, match="of a defect"):
        it.abort()
