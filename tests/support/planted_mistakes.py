"""One mistake in a history that is correct: each function plants one kind and says what exactly must be found.

A function raises `Unfit` where the history has no place for it.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafwire.types import TopicPartition
from tests.support.made_histories import COMMITTED, UNCOMMITTED, Seen, Sent, Transaction, Unfit, World

LOST, DUPLICATED, MISORDERED, TORN, PHANTOM, DISAGREEMENT = (
    "lost",
    "duplicated",
    "misordered",
    "torn",
    "phantom",
    "disagreement",
)
ALTERED, SKIPPED, REPEATED, DIRTY = "altered", "skipped", "repeated", "dirty"


@dataclass
class Expected:
    kind: str
    where: str
    involved: str  # what the operations, or the text, must name
    amount: int = 1


def place(where: TopicPartition, offset: int | None) -> str:
    return f"{where.topic}-{where.partition}@{offset}"


def name(record: Sent) -> str:
    return f"p{record.producer} #{record.sequence}"


def visible(world: World, record: Sent) -> bool:
    """True if the final readings see it."""
    return record.offset is not None and (world.whole or record.is_shown)


def remove(world: World, record: Sent) -> None:
    assert record.offset is not None
    world.logs[record.where][record.offset] = None
    record.offset = None


def shown_by(world: World, isolation: str, record: Sent) -> list[Seen]:
    """Views that have it. Each reads every partition, though maybe not all of it."""
    assert record.offset is not None
    if isolation == COMMITTED and not record.is_shown:
        return []
    return [view for view in world.of(isolation) if view.covers(record.where, record.offset)]


# -- I1


def lose_an_acknowledged_record(world: World) -> Expected:
    record = world.pick(
        lambda r: r.reported_offset is not None and visible(world, r) and (world.whole or r.transaction is None)
    )
    expected = Expected(LOST, place(record.where, record.reported_offset), name(record))
    remove(world, record)
    return expected


def lose_a_record_acknowledged_without_an_offset(world: World) -> Expected:
    record = world.pick(lambda r: r.outcome == "ok" and r.reported_offset is None and r.offset is not None)
    if not world.whole or any(view.starts for view in world.finals):
        raise Unfit
    remove(world, record)
    return Expected(LOST, "", name(record))


def cut_a_log_off(world: World) -> Expected:
    """The log after an unclean election: it ends before a record that was acknowledged. All readings are of then."""
    record = world.pick(
        lambda r: (
            r.reported_offset is not None
            and r.offset is not None
            and all(each is None for each in world.logs[r.where][r.offset + 1 :])
        )
    )
    if not world.whole:
        raise Unfit
    offset = record.offset
    assert offset is not None
    remove(world, record)
    for view in world.views:
        view.ends[record.where] = min(view.ends[record.where], offset)
    return Expected(LOST, place(record.where, offset), name(record))


def cut_off_what_was_seen_before(world: World) -> Expected:
    """The same after an early reading: the last ones end before what it saw."""
    record = world.pick(
        lambda r: r.offset is not None and all(each is None for each in world.logs[r.where][r.offset + 1 :])
    )
    early = [view for view in shown_by(world, UNCOMMITTED, record) if not view.final]
    if any(view.covers(record.where, record.offset or 0) for view in world.lives):
        raise Unfit
    if not early or not world.whole or any(not view.final for view in shown_by(world, COMMITTED, record)):
        raise Unfit
    if any(view.starts for view in world.finals):
        raise Unfit
    assert record.offset is not None
    for view in world.finals:
        view.ends[record.where] = record.offset
    return Expected(DISAGREEMENT, place(record.where, record.offset), name(record))


def hide_a_committed_transaction(world: World) -> Expected:
    transaction = pick_transaction(world, lambda t: t.reported == "commit" and bool(t.there))
    if any(not shown_by(world, COMMITTED, r) for r in transaction.there):
        raise Unfit
    if not world.whole and any(r.reported_offset is None for r in transaction.there):
        raise Unfit  # no observer can know of it
    for record in transaction.there:
        hide(world, record)
    return Expected(LOST, "", f"p{transaction.producer} transaction {transaction.number}", len(transaction.there))


# -- I2


def have_a_record_twice(world: World) -> Expected:
    record = world.pick(lambda r: visible(world, r) and (r.transaction is None or r.transaction.real == "commit"))
    # Behind its place: an earlier partition would have it out of order.
    where = world.chance.choice([record.where, *(other for other in world.partitions if other > record.where)])
    if record.dress is not None:
        record.dress = record.dress._replace(partition=None)  # else it is in the wrong place too
    return Expected(DUPLICATED, place(where, world.grow(record, where)), name(record))


# -- I3


def swap_two_records_of_a_producer(world: World) -> Expected:
    """The two records have one key or two: order is a partition's."""
    pairs = []
    lanes: dict[tuple[int, TopicPartition], Sent] = {}
    for record in world.sent:
        if record.offset is None or record.producer in world.careless:
            continue
        lane = (record.producer, record.where)
        before = lanes.get(lane)
        if before is not None and before.transaction is record.transaction and visible(world, record):
            pairs.append((before, record))
        lanes[lane] = record
    if not pairs:
        raise Unfit
    first, second = world.chance.choice(pairs)
    assert first.offset is not None
    assert second.offset is not None
    log = world.logs[first.where]
    log[first.offset], log[second.offset] = second, first
    first.offset, second.offset = second.offset, first.offset
    for record in (first, second):
        if record.reported_offset is not None:
            record.reported_offset = record.offset
    return Expected(MISORDERED, place(first.where, first.offset), name(first))


def give_an_observer_a_record_again(world: World) -> Expected:
    view = world.chance.choice([*world.views, *world.lives])
    rows = [(where, offset) for where in world.partitions for offset, *_ in world.rows(view, where)]
    if not rows:
        raise Unfit
    view.again = world.chance.choice(rows)
    return Expected(REPEATED, place(*view.again), view.name)


# -- I4


def pick_transaction(world: World, fits: object) -> Transaction:
    assert callable(fits)
    found = [t for t in world.transactions if fits(t)]
    if not found or not world.of(COMMITTED):
        raise Unfit
    return world.chance.choice(found)


def hide(world: World, record: Sent) -> None:
    assert record.offset is not None
    for view in (*world.of(COMMITTED), *world.following(COMMITTED)):
        view.hidden.add((record.where, record.offset))


def show(world: World, record: Sent) -> None:
    assert record.offset is not None
    for view in (*world.of(COMMITTED), *world.following(COMMITTED)):
        if view.covers(record.where, record.offset):
            view.instead[record.where, record.offset] = record


def tear_a_committed_transaction(world: World) -> Expected:
    transaction = pick_transaction(
        world,
        lambda t: t.real == "commit" and len([r for r in t.there if shown_by(world, COMMITTED, r)]) > 1,
    )
    there = [r for r in transaction.there if shown_by(world, COMMITTED, r)]
    hidden = world.chance.sample(there, world.chance.randint(1, len(there) - 1))
    if not world.whole and all(r.reported_offset is None for r in hidden):
        raise Unfit  # no observer can know of them
    for record in hidden:
        hide(world, record)
    return Expected(TORN, "", f"p{transaction.producer} transaction {transaction.number}")


def drop_a_record_that_a_commit_said_is_there(world: World) -> Expected:
    """The record has no acknowledgement, but other records of its transaction are seen."""
    record = world.pick(
        lambda r: (
            r.offset is not None
            and r.outcome == "unknown"
            and r.transaction is not None
            and r.transaction.real == "commit"
            and any(shown_by(world, COMMITTED, other) for other in r.transaction.there if other is not r)
        )
    )
    if not world.whole or any(view.starts for view in world.finals):
        raise Unfit
    remove(world, record)
    assert record.transaction is not None
    return Expected(TORN, "", f"p{record.producer} transaction {record.transaction.number}")


def show_a_part_of_an_undecided_transaction(world: World) -> Expected:
    transaction = pick_transaction(
        world,
        lambda t: (
            t.real == "abort"
            and t.reported in (None, "unknown")
            and len([r for r in t.there if shown_by_if_committed(world, r)]) > 1
        ),
    )
    there = [r for r in transaction.there if shown_by_if_committed(world, r)]
    for record in world.chance.sample(there, world.chance.randint(1, len(there) - 1)):
        show(world, record)
    if not world.whole and not all(r.reported_offset is not None for r in transaction.there):
        raise Unfit  # that there is more is known only from acknowledgements
    for where in transaction.takes:  # it counts as committed from now on
        world.group[where] = max(world.group[where] or 0, transaction.takes[where])
    return Expected(TORN, "", f"p{transaction.producer} transaction {transaction.number}")


def shown_by_if_committed(world: World, record: Sent) -> list[Seen]:
    assert record.offset is not None
    return [view for view in world.of(COMMITTED) if view.covers(record.where, record.offset)]


def show_an_aborted_transaction(world: World) -> Expected:
    transaction = pick_transaction(
        world,
        lambda t: t.reported == "abort" and any(shown_by_if_committed(world, r) for r in t.there),
    )
    there = [r for r in transaction.there if shown_by_if_committed(world, r)]
    shown = world.chance.sample(there, world.chance.randint(1, len(there)))
    for record in shown:
        show(world, record)
    return Expected(DIRTY, "", f"p{transaction.producer} transaction {transaction.number}", len(shown))


def set_a_group_to_another_offset(world: World) -> Expected:
    """The other offset is an older one, that of an aborted transaction, or one that no transaction ever had."""
    known = [where for where, offset in world.group.items() if offset is not None]
    if not known:
        raise Unfit
    where = world.chance.choice(known)
    right = world.group[where]
    undecided = {
        t.takes[where] for t in world.transactions if where in t.takes and t.reported not in ("commit", "abort")
    }
    aborted = {t.takes[where] for t in world.transactions if where in t.takes and t.reported == "abort"}
    older = {t.takes[where] for t in world.transactions if where in t.takes and t.real == "commit"}
    certain = {t.takes[where] for t in world.transactions if where in t.takes and t.reported == "commit"}
    assert right is not None
    choices: list[int | None] = [right + 100, *sorted((aborted | older) - undecided - {right})]
    if certain:
        choices.append(None)
    # Without a report of its commit, an older offset may be right.
    choices = [c for c in choices if c is None or c not in undecided | {max(certain, default=-1)}]
    wrong = world.chance.choice(choices)
    if not certain and wrong == right + 100:
        raise Unfit  # there is no operation to name
    world.group[where] = wrong
    return Expected(TORN, place(where, -1 if wrong is None else wrong), "group g")


def take_a_part_of_the_offsets_of_an_undecided_transaction(world: World) -> Expected:
    """One of its offsets is seen, so the other has to be too."""
    fit = []
    for transaction in world.transactions:
        places = list(transaction.takes)
        others = [t for t in world.transactions if t is not transaction and t.reported not in ("commit", "abort")]
        alone = all(other.takes.get(w) != world.group[w] for other in others for w in places)
        undecided = transaction.reported in (None, "unknown") and transaction.real == "commit"
        if len(places) > 1 and undecided and alone and all(world.group[w] == transaction.takes[w] for w in places):
            fit.append(transaction)
    if not fit:
        raise Unfit
    transaction = world.chance.choice(fit)
    where = world.chance.choice(list(transaction.takes))
    before = [
        t.takes[where] for t in world.transactions if where in t.takes and t is not transaction and t.real == "commit"
    ]
    world.group[where] = max(before, default=None)
    wrong = -1 if world.group[where] is None else world.group[where]
    return Expected(TORN, place(where, wrong), "group g")


def take_only_the_offsets_of_an_undecided_transaction(world: World) -> Expected:
    """Its records are not seen where read_committed looked, so its offsets should not be either."""
    transaction = pick_transaction(
        world,
        lambda t: (
            t.reported in (None, "unknown")
            and t.real == "abort"
            and any(
                shown_by_if_committed(world, r) and (r.reported_offset is not None or shown_by(world, UNCOMMITTED, r))
                for r in t.there
            )
            and any(to > (world.group[where] or 0) for where, to in t.takes.items())
        ),
    )
    where = world.chance.choice([w for w, to in transaction.takes.items() if to > (world.group[w] or 0)])
    wrong = transaction.takes[where]
    if any(t.takes.get(where) == wrong for t in world.transactions if t is not transaction):
        raise Unfit
    world.group[where] = wrong
    return Expected(TORN, place(where, wrong), f"p{transaction.producer} transaction {transaction.number}")


# -- phantoms


def add_a_record_without_a_sender(world: World) -> Expected:
    chance = world.chance
    where = chance.choice(world.partitions)
    producer = chance.choice([*world.producers, 77])
    record = Sent(producer, 0, world.next_sequence.get(producer, 0) + chance.randint(0, 3))
    return Expected(PHANTOM, place(where, world.grow(record, where)), f"p{producer} #{record.sequence}")


def add_a_value_of_someone_else(world: World) -> Expected:
    where = world.chance.choice(world.partitions)
    raw = world.chance.choice([b"", b"hello", bytes(16), bytes(40), b"x" * 15])
    record = Sent(1, 0, 0, raw=raw)
    return Expected(PHANTOM, place(where, world.grow(record, where)), f"of {len(raw)} bytes")


def add_a_damaged_value(world: World) -> Expected:
    whole = world.pick(lambda r: r.outcome != "fail")
    raw = bytearray(whole.value)
    raw[world.chance.randrange(2, 24)] ^= 1 << world.chance.randrange(8)
    where = world.chance.choice(world.partitions)
    offset = world.grow(Sent(1, 0, 0, raw=bytes(raw)), where)
    return Expected(PHANTOM, place(where, offset), "")


def add_a_record_that_failed(world: World) -> Expected:
    record = world.pick(lambda r: r.outcome == "fail" and (world.whole or r.is_shown))
    offset = world.grow(record, record.where)
    if not record.is_shown:
        for view in world.of(COMMITTED):
            view.hidden.add((record.where, offset))
    return Expected(PHANTOM, place(record.where, offset), name(record))


# -- disagreements


def keep_a_record_from_one_observer(world: World) -> Expected:
    view, record = one_of_several(world)
    assert record.offset is not None
    view.hidden.add((record.where, record.offset))
    return Expected(DISAGREEMENT, place(record.where, record.offset), name(record))


def show_one_observer_another_record(world: World) -> Expected:
    view, record = one_of_several(world, reported=True)
    other = world.pick(lambda r: r is not record and r.outcome != "fail")
    assert record.offset is not None
    view.instead[record.where, record.offset] = other
    return Expected(DISAGREEMENT, place(record.where, record.offset), name(record))


def one_of_several(world: World, *, reported: bool = False) -> tuple[Seen, Sent]:
    """A view, and a record that others show too. A record of a transaction is shown only by others of the same kind."""
    record = world.pick(
        lambda r: (
            r.offset is not None
            and world.logs[r.where].count(r) == 1
            and (not reported or r.reported_offset is not None)
        )
    )
    if any(r is not record and (r.where, r.reported_offset) == (record.where, record.offset) for r in world.sent):
        raise Unfit  # a careless producer reports the same place
    whole, committed = shown_by(world, UNCOMMITTED, record), shown_by(world, COMMITTED, record)
    fit = whole if len(whole) > 1 or committed else []
    if len(committed) > 1 or (whole and record.transaction is None):
        fit = fit + committed
    if not fit:
        raise Unfit
    return world.chance.choice(fit), record


def acknowledge_a_record_elsewhere(world: World) -> Expected:
    record = world.pick(lambda r: r.reported_offset is not None and visible(world, r))
    if record.transaction is not None and not world.whole:
        raise Unfit
    log = world.logs[record.where]
    assert record.offset is not None
    wrong = world.chance.choice([o for o in range(len(log) + 2) if o != record.offset])
    record.reported_offset = wrong
    return Expected(DISAGREEMENT, place(record.where, wrong), name(record))


def keep_a_plain_record_from_read_committed(world: World) -> Expected:
    record = world.pick(lambda r: r.offset is not None and r.transaction is None)
    if not shown_by(world, COMMITTED, record) or not shown_by(world, UNCOMMITTED, record):
        raise Unfit
    hide(world, record)
    return Expected(DISAGREEMENT, place(record.where, record.offset), name(record))


# -- what a record was sent with


def known_to_all(world: World, *, dressed: bool = True) -> Sent:
    """A record that every reader would see changed, and that has the clothes to change."""
    if dressed and not world.looks:
        raise Unfit
    return world.pick(
        lambda r: (
            r.offset is not None
            and world.logs[r.where].count(r) == 1
            and visible(world, r)
            and (r.dress is not None or not dressed)
        )
    )


def change_a_key(world: World) -> Expected:
    record = known_to_all(world)
    assert record.dress is not None
    key = record.dress.key
    others = [None, b"", b"%d" % record.key, b"%d" % (record.key + 1)]
    record.changed["key"] = world.chance.choice([other for other in others if other != key])
    return Expected(ALTERED, place(record.where, record.offset), f"key={record.changed['key']!r}")


def change_the_headers(world: World) -> Expected:
    record = known_to_all(world)
    assert record.dress is not None
    headers = tuple(record.dress.headers)
    changes = [(*headers, ("a", None)), (*headers, ("a", b"")), headers[::-1], headers[1:], headers[:-1]]
    record.changed["headers"] = world.chance.choice([other for other in changes if other != headers])
    return Expected(ALTERED, place(record.where, record.offset), f"headers={record.changed['headers']!r}")


def change_a_time(world: World) -> Expected:
    record = known_to_all(world)
    assert record.dress is not None
    if record.dress.timestamp_ms is None:
        raise Unfit
    record.changed["timestamp_ms"] = record.dress.timestamp_ms + world.chance.choice([-1, 1, 3_600_000])
    return Expected(ALTERED, place(record.where, record.offset), f"timestamp_ms={record.changed['timestamp_ms']}")


def put_a_record_into_another_partition(world: World) -> Expected:
    """Its producer reports its partition: not the one that it was sent to."""
    record = known_to_all(world)
    assert record.dress is not None
    if record.dress.partition is None:
        raise Unfit
    record.dress = record.dress._replace(partition=record.where.partition + 1)
    return Expected(ALTERED, place(record.where, record.offset), f"partition={record.where.partition}")


def cut_or_lengthen_a_value(world: World) -> Expected:
    """The value still consists of its token alone, repeated."""
    record = known_to_all(world, dressed=False)
    if record.dress is not None and not world.looks:
        raise Unfit
    record.changed["size"] = world.chance.choice([s for s in (24, 48, record.size - 1, record.size + 1) if s >= 24])
    if record.changed["size"] == record.size:
        raise Unfit
    said = f"a value of {record.changed['size']} bytes" if world.looks else name(record)
    return Expected(ALTERED, place(record.where, record.offset), said)


# -- readers that are there all the time


def live_record(world: World, *, whole: bool = False) -> tuple[Seen, Sent]:
    """A record that a live reader sees, and others too in the end."""
    fits = []
    for view in world.lives:
        for where in world.partitions:
            for offset, *_ in world.rows(view, where):
                record = world.logs[where][offset]
                assert record is not None
                if record.producer in world.careless or not finally_seen(world, view, where, offset):
                    continue
                if not whole or record.dress is not None:
                    fits.append((view, record))
    if not fits:
        raise Unfit
    view, record = world.chance.choice(fits)
    if record.offset is None or world.logs[record.where].count(record) != 1:
        raise Unfit
    return view, record


def finally_seen(world: World, view: Seen, where: TopicPartition, offset: int) -> bool:
    return any(
        other.covers(where, offset) and other.final and other.isolation == view.isolation for other in world.views
    )


def pass_over_a_record(world: World) -> Expected:
    """Leave the record out, or let the reader go on behind it without an error."""
    view, record = live_record(world)
    assert record.offset is not None
    later = [offset for offset, *_ in world.rows(view, record.where) if offset > record.offset]
    if record.where in view.gaps or not (view.closed or later):
        raise Unfit  # its error named a gap from where it was; it may have been killed before it
    view.hidden.add((record.where, record.offset))
    if world.chance.random() < 0.5 and record.where not in view.returns:
        view.jumps.add((record.where, record.offset))
    return Expected(SKIPPED, place(record.where, record.offset), view.name)


def begin_behind_a_record(world: World) -> Expected:
    """A reader that was killed starts over behind the records that it got: its offset was committed too early."""
    view, record = live_record(world)
    assert record.offset is not None
    if record.where in view.returns or record.where in view.gaps or view.starts[record.where] == record.offset:
        raise Unfit
    view.hidden.add((record.where, record.offset))
    view.jumps.add((record.where, record.offset))
    return Expected(SKIPPED, place(record.where, record.offset), view.name)


def show_a_live_reader_an_aborted_record(world: World) -> Expected:
    fits = [
        (view, record)
        for view in world.following(COMMITTED)
        for record in world.sent
        if record.offset is not None and not record.is_shown and record.producer not in world.careless
        if record.transaction is not None and record.transaction.reported == "abort"
        if view.covers(record.where, record.offset) and finally_seen(world, view, record.where, record.offset)
    ]
    if not fits or not world.whole or any(view.starts for view in world.finals):
        raise Unfit
    view, record = world.chance.choice(fits)
    assert record.offset is not None
    view.instead[record.where, record.offset] = record
    return Expected(DIRTY, place(record.where, record.offset), view.name)


def show_a_live_reader_another_record(world: World) -> Expected:
    view, record = live_record(world)
    other = world.pick(lambda r: r is not record and r.outcome != "fail")
    assert record.offset is not None
    view.instead[record.where, record.offset] = other
    return Expected(DISAGREEMENT, place(record.where, record.offset), view.name)


def show_a_live_reader_a_record_where_there_is_none(world: World) -> Expected:
    fits = [
        (view, where, offset)
        for view in world.lives
        for where in world.partitions
        for offset, record in enumerate(world.logs[where])
        if record is None and view.covers(where, offset) and finally_seen(world, view, where, offset)
    ]
    if not fits or not world.whole:
        raise Unfit
    view, where, offset = world.chance.choice(fits)
    other = world.pick(lambda r: r.outcome != "fail")
    view.instead[where, offset] = other
    return Expected(DISAGREEMENT, place(where, offset), view.name)


def give_a_live_reader_a_changed_record(world: World) -> Expected:
    view, record = live_record(world, whole=True)
    if not world.looks:
        raise Unfit
    assert record.offset is not None
    view.changed[record.where, record.offset] = {"key": b"another"}
    return Expected(ALTERED, place(record.where, record.offset), view.name)


MISTAKES = [
    lose_an_acknowledged_record,
    lose_a_record_acknowledged_without_an_offset,
    cut_a_log_off,
    cut_off_what_was_seen_before,
    hide_a_committed_transaction,
    have_a_record_twice,
    swap_two_records_of_a_producer,
    give_an_observer_a_record_again,
    tear_a_committed_transaction,
    drop_a_record_that_a_commit_said_is_there,
    show_a_part_of_an_undecided_transaction,
    show_an_aborted_transaction,
    set_a_group_to_another_offset,
    take_a_part_of_the_offsets_of_an_undecided_transaction,
    take_only_the_offsets_of_an_undecided_transaction,
    add_a_record_without_a_sender,
    add_a_value_of_someone_else,
    add_a_damaged_value,
    add_a_record_that_failed,
    keep_a_record_from_one_observer,
    show_one_observer_another_record,
    acknowledge_a_record_elsewhere,
    keep_a_plain_record_from_read_committed,
    change_a_key,
    change_the_headers,
    change_a_time,
    put_a_record_into_another_partition,
    cut_or_lengthen_a_value,
    pass_over_a_record,
    begin_behind_a_record,
    show_a_live_reader_an_aborted_record,
    show_a_live_reader_another_record,
    show_a_live_reader_a_record_where_there_is_none,
    give_a_live_reader_a_changed_record,
]
