"""The rows of groups, commits, streams and share groups. Data only.

kafwire has no peer in these rows: `benchmarks.groups`, `benchmarks.share` and `benchmarks.streams` have the peers, and
`benchmarks.compare` holds another commit against this tree.
"""

from collections.abc import Sequence

from benchmarks.row import LARGE_BATCH, SMALL_BATCH, Contender, Row, Topic

PROTOCOLS = ("classic", "consumer")
_GROUP_TOPIC = Topic(100, "lz4", LARGE_BATCH, 8)
_COMMIT_TOPIC = Topic(100, "lz4", LARGE_BATCH)
_SMALL_BATCHES = Topic(100, "lz4", SMALL_BATCH, 8)


def _member(protocol: str) -> Row:
    """A member of a group reads all partitions; the time of its join is not part of the rate."""
    own = {"conf.group_protocol": protocol}
    return Row(
        f"group-consume-{protocol}",
        "group",
        "M records/s",
        _GROUP_TOPIC,
        [
            Contender("kafwire member", "kafwire_group", "batches", own),
            Contender("kafwire member records", "kafwire_group", "records", own),
            Contender("kafwire async member", "kafwire_group", "async_batches", own),
        ],
        short=protocol == "consumer",
        figure="rate",
    )


def _join(name: str, protocol: str) -> Row:
    """The row of the time from making a member to its first record, alone or beside another member."""
    return Row(
        f"group-{name}-{protocol}",
        "rebalance",
        "ms",
        _SMALL_BATCHES,
        [Contender("kafwire", "kafwire_group", name, {"conf.group_protocol": protocol})],
        short=(name, protocol) == ("rebalance", "consumer"),
        figure="first_record_ms",
    )


def _commit(name: str, short: bool) -> Row:
    """A loop over records with a commit after each."""
    return Row(
        f"commit-{name}",
        "commit",
        "k commits/s",
        _COMMIT_TOPIC,
        [
            Contender("kafwire", "kafwire_commit", name),
            Contender("kafwire async", "kafwire_commit", f"async_{name}"),
        ],
        short=short,
    )


def _memory_stream(name: str, tasks: Sequence[tuple[str, str]]) -> Row:
    """The row of a stream from memory to memory, which measures the steps alone."""
    contenders = [Contender(f"kafwire {label}", "kafwire_stream", task) for label, task in tasks]
    return Row(f"stream-{name}", "stream", "k records/s", _COMMIT_TOPIC, contenders, short=name == "map")


def _topic_stream(guarantee: str) -> Row:
    """The row of a stream from a topic through a group's member to another topic."""
    own = {"guarantee": guarantee}
    return Row(
        f"stream-topic-{guarantee.replace('_', '-')}",
        "stream",
        "k records/s",
        _SMALL_BATCHES,
        [
            Contender("kafwire map", "kafwire_stream", "topic_map", own),
            Contender("kafwire for_each", "kafwire_stream", "topic_for_each", own),
        ],
        short=guarantee == "exactly_once",
    )


def _share(name: str, task: str) -> Row:
    """A member of a share group acquires records, and acknowledges them."""
    return Row(
        f"share-{name}",
        "share",
        "k records/s",
        _SMALL_BATCHES,
        [Contender("kafwire", "kafwire_share", task)],
        short=name == "column",
    )


MEMBER_ROWS: Sequence[Row] = [
    *[_member(protocol) for protocol in PROTOCOLS],
    *[_join(name, protocol) for name in ("join", "rebalance") for protocol in PROTOCOLS],
    _commit("each", short=True),
    _commit("each-offset", short=False),
    _memory_stream("map", [("map, batch", "map"), ("map, one by one", "map_singly")]),
    _memory_stream("for_each", [("for_each by key", "for_each_by_key"), ("for_each", "for_each")]),
    *[_topic_stream(guarantee) for guarantee in ("at_least_once", "exactly_once")],
    *[_share(name, name) for name in ("implicit", "column", "records", "each")],
]
