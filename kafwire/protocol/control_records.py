"""The records of control batches: transaction markers, and the metadata quorum's entries in its log.

See KIP-98 for transactions, KIP-595 for elections, KIP-630 for snapshots, KIP-853 for voters.

The key of such a record is an int16 version and a type: 0 abort, 1 commit, 2 leader change, 3 snapshot header, 4
snapshot footer, 5 kraft version, 6 voters. The value of `EndTxnMarker` also begins with an int16 version; the others
have it as their first field.
"""

from kafwire.protocol.spec import UUID, Data, Struct, field, int16, int32, int64, uint16


class ControlRecordTypeSchema(Data, versions="0"):
    """The key of a control record, after the version: the type, which determines the value's message."""

    type: int16 = field("0+")


class EndTxnMarker(Data, versions="0"):
    """The value of an abort or commit marker, after the version: the end of a transaction in one partition."""

    coordinator_epoch: int32 = field("0+")


class LeaderChangeMessage(Data, versions="0-1", flexible="0+"):
    """The first record of a leader of the metadata quorum. Version 1 identifies voters also by directory (KIP-853)."""

    class Voter(Struct):
        voter_id: int32 = field("0+")
        voter_directory_id: UUID = field("1+")

    version: int16 = field("0+")
    leader_id: int32 = field("0+")
    voters: list[Voter] = field("0+")
    granting_voters: list[Voter] = field("0+")


class SnapshotHeaderRecord(Data, versions="0", flexible="0+"):
    """The first record of a snapshot: the timestamp, in milliseconds, of the last record that it contains."""

    version: int16 = field("0+")
    last_contained_log_timestamp: int64 = field("0+")


class SnapshotFooterRecord(Data, versions="0", flexible="0+"):
    """The last record of a snapshot. A file without it is not complete."""

    version: int16 = field("0+")


class KRaftVersionRecord(Data, versions="0", flexible="0+"):
    """The quorum's protocol from here on: `kraft.version` 1 and later can change voters at run time (KIP-853)."""

    version: int16 = field("0+")
    k_raft_version: int16 = field("0+")


class VotersRecord(Data, versions="0", flexible="0+"):
    """The whole set of voters of the metadata quorum from here on (KIP-853)."""

    class Endpoint(Struct):
        name: str = field("0+")
        host: str = field("0+")
        port: uint16 = field("0+")

    class KRaftVersionFeature(Struct):
        min_supported_version: int16 = field("0+")
        max_supported_version: int16 = field("0+")

    class Voter(Struct):
        voter_id: int32 = field("0+")
        voter_directory_id: UUID = field("0+")
        endpoints: list["VotersRecord.Endpoint"] = field("0+")
        k_raft_version_feature: "VotersRecord.KRaftVersionFeature" = field("0+")

    version: int16 = field("0+")
    voters: list[Voter] = field("0+")
