"""Gives up unfinished batches at once: for `purge`, and for a transaction that cannot be committed."""

from __future__ import annotations

from kafwire.errors import KafkaError, PurgedError
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer.backlog import Backlog
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.outcome.sequencer import BatchOutcome
from kafwire.producer.send.recreated_topics import RecreatedTopics


def purge(backlog: Backlog, outcomes: Outcomes, recreated: RecreatedTopics, *, in_flight: bool) -> int:
    """Give up batches that are certainly not in the log; `in_flight`: also those that may be. Return how many records.

    A batch in flight stays with the sequencer, and in `sent`, until its response: the numbers of later batches depend
    on it, and a transaction does not end before.
    """
    given_up = 0
    for where, queue in list(backlog.waiting.items()):
        for batch in list(queue.sequencer.retries):
            if in_flight or not queue.sequencer.is_doubtful(batch):
                in_doubt = queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL
                given_up += batch.count
                outcomes.give_up(batch, purged(batch, "acknowledged" if in_doubt else "sent"), in_doubt=in_doubt)
        buffered = [*queue.advance(), *queue.sealed]  # sealed ones: threads still add rows to them, and notice the end
        queue.fresh.clear()
        queue.sealed.clear()
        for batch in buffered:
            given_up += batch.count
            outcomes.give_up(batch, purged(batch), numbered=False)
        backlog.dismiss(where, queue)
    for queue in backlog.deleted_queues:
        for batch in recreated.take_out(queue):
            given_up += batch.count
            outcomes.give_up(batch, purged(batch), numbered=batch.attempts > 0)
    for batch in list(outcomes.sent) if in_flight else ():
        if not batch.done and batch in batch.queue.sequencer.in_flight:
            given_up += batch.count
            outcomes.give_up(batch, purged(batch, "acknowledged"), in_doubt=True)
            outcomes.sent[batch] = None
    return given_up


def purged(batch: ProducerBatch, what: str = "sent") -> PurgedError:
    """Return the error of the records in a batch that was purged before it was `what`: sent or acknowledged."""
    fate = "they are not in the log" if what == "sent" else "they may or may not be in the log"
    return PurgedError(f"{batch.count} record(s) to {batch.queue.name} were purged before they were {what}: {fate}")


def drop_unsent(backlog: Backlog, outcomes: Outcomes, recreated: RecreatedTopics, error: KafkaError) -> None:
    """Give up all batches except those in flight, which return first."""
    for queue in backlog.deleted_queues:
        for batch in recreated.take_out(queue):
            outcomes.give_up(batch, error, numbered=batch.attempts > 0)
    for where, queue in list(backlog.waiting.items()):
        outcomes.give_up_waiting(where, queue, error)
