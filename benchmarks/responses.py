"""Two responses of the size that busy clusters send, as bytes: the clients decode them in the rows named `message`.

They are made by kafwire; that its bytes are Kafka's own is the subject of `tests/conformance`.
"""

from kafwire import protocol

METADATA_VERSION = 12
FETCH_VERSION = 12  # the last that names topics; no client needs more to read it
_BROKERS = 3
_TOPICS = 1_000
_PARTITIONS = 10


def metadata() -> bytes:
    """The body of a Metadata response: 1,000 topics of 10 partitions, three replicas each."""
    kind = protocol.MetadataResponse
    replicas = list(range(_BROKERS))
    return kind(
        cluster_id="4L6g3nShT-eMCtK--X86sw",
        controller_id=1,
        brokers=[
            kind.MetadataResponseBroker(node_id=i, host=f"broker-{i}.example.org", port=9092) for i in range(_BROKERS)
        ],
        topics=[
            kind.MetadataResponseTopic(
                name=f"topic-{number:04}",
                partitions=[
                    kind.MetadataResponsePartition(
                        partition_index=i,
                        leader_id=i % _BROKERS,
                        leader_epoch=number,
                        replica_nodes=replicas,
                        isr_nodes=replicas,
                    )
                    for i in range(_PARTITIONS)
                ],
            )
            for number in range(_TOPICS)
        ],
    ).encode(METADATA_VERSION)


def fetch() -> bytes:
    """The body of a Fetch response: 1,000 partitions in 100 topics, 200 bytes of records each."""
    kind = protocol.FetchResponse
    records = bytes(range(200))
    return kind(
        session_id=1,
        responses=[
            kind.FetchableTopicResponse(
                topic=f"topic-{number:04}",
                partitions=[
                    kind.PartitionData(
                        partition_index=i,
                        high_watermark=1_000_000 + number,
                        last_stable_offset=1_000_000 + number,
                        log_start_offset=number,
                        aborted_transactions=None,
                        records=records,
                    )
                    for i in range(_PARTITIONS)
                ],
            )
            for number in range(100)
        ],
    ).encode(FETCH_VERSION)
