"""Internal topics: clients do not write to them."""

import pytest

import kafwire
from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.records import encode_batch
from kafwire.testing import EmbeddedKafka


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
@pytest.mark.parametrize("version", [9, 13])
def test_writes_to_internal_topics_are_refused_as_in_kafka(name: str, version: int) -> None:
    with EmbeddedKafka() as kafka, kafwire.Client(kafka.bootstrap) as client:
        kafka.create_topic(name, 1)
        (known,) = client.metadata([name]).topics
        assert known.is_internal
        request = protocol.ProduceRequest(acks=-1, timeout_ms=10_000)
        part = request.PartitionProduceData(index=0, records=encode_batch([b"v"]))
        request.topic_data = [request.TopicProduceData(name=name, topic_id=known.topic_id, partition_data=[part])]
        (found,) = client.call(request, version=version).responses[0].partition_responses
        assert (found.error_code, found.base_offset) == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)
        assert kafka.records(name) == []
