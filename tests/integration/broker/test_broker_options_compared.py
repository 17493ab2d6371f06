"""DescribeConfigs of brokers, topics and groups of the embedded broker and of a real one: names, types and flags."""

from __future__ import annotations

from typing import Any

import pytest

import kafwire
from kafwire import protocol
from kafwire.testing import EmbeddedKafka, KafkaCluster


def described(bootstrap: str, kind: int, name: str) -> dict[str, Any]:
    request = protocol.DescribeConfigsRequest
    resource = request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    with kafwire.Client(bootstrap) as client:
        response: Any = client.call(request(resources=[resource], include_synonyms=True), broker=1)
    (result,) = response.results
    assert result.error_code == 0
    return {each.name: each for each in result.configs}


@pytest.mark.parametrize(("kind", "name"), [(2, "topic"), (4, "1"), (32, "group")])
def test_options_have_kafka_s_names_types_flags_and_defaults(
    cluster: KafkaCluster, topic_name: str, kind: int, name: str
) -> None:
    name = topic_name if kind == 2 else name
    with EmbeddedKafka() as embedded:
        for bootstrap in (embedded.bootstrap, cluster.bootstrap):
            with kafwire.Client(bootstrap) as client:
                client.create_topic(topic_name, partitions=1)
        ours, real = (described(each, kind, name) for each in (embedded.bootstrap, cluster.bootstrap))
    assert ours.keys() == real.keys()
    flags = [
        {each: (its.config_type, its.read_only, its.is_sensitive) for each, its in side.items()}
        for side in (ours, real)
    ]
    assert flags[0] == flags[1]
    defaults = [
        {each: [(s.name, s.value) for s in its.synonyms if s.source == 5] for each, its in side.items()}
        for side in (ours, real)
    ]
    assert defaults[0] == defaults[1]
