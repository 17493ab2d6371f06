"""The embedded broker and a real one give the same responses to the same generated requests, field by field.

Differences by right are in `LISTED`, each with the reason. One that is listed and not there any more fails too.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator

import pytest

from kafwire.broker.embedded import EmbeddedKafka
from kafwire.testing import KafkaCluster
from tests.support import seeds
from tests.support.broker.differential import CONFIGS, Side, apis, compared

ROUNDS, MORE_ROUNDS = 8, 100  # requests of each version of an API: every day, and in a long run

ELR = (
    "eligible.leader.replicas.version is 1 in a new cluster, whose controller sets min.insync.replicas for the cluster"
)
FEATURES = "a broker without replication and a quorum of its own lacks it"
LISTED = {
    ("ApiVersions", "api_keys[]"): "NOT_SERVED in test_broker_newest.py",
    ("ApiVersions", "finalized_features_epoch"): "a real one is the controller's last offset when they were read",
    ("ApiVersions", "finalized_features[]"): FEATURES,
    ("ApiVersions", "supported_features[]"): FEATURES,
    ("CreateTopics", "topics[].configs[].config_source"): ELR,
    ("DescribeConfigs", "results[].configs[].config_source"): ELR,
    ("DescribeConfigs", "results[].configs[].synonyms[]"): ELR,
    ("ShareFetch", "responses[]"): "a real broker responds before it has loaded a share partition",
    ("ShareFetch", "responses[].partitions[]"): "the same",
}
# Those of the above that a run may be without: they depend on what a real broker has loaded by then.
NOT_ALWAYS = {where for where in LISTED if where[0] == "ShareFetch"}


@pytest.fixture(scope="module")
def sides() -> Iterator[tuple[Side, Side]]:
    token = uuid.uuid4().hex[:8]
    # A cluster of its own: other tests fuzz the shared one, and its lists of groups and transactions show it.
    with EmbeddedKafka(configs=CONFIGS) as embedded, KafkaCluster() as cluster:
        both = Side(cluster.bootstrap, token), Side(embedded.bootstrap, token)
        for side in both:
            side.prepare()
        yield both
        for side in both:
            side.close()


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, sides: tuple[Side, Side]) -> dict[tuple[str, str], list[str]]:
    """The differences, and their requests. All are sent in one order: some change what later ones see."""
    differing = defaultdict(list)
    for seed in range(MORE_ROUNDS if seeds.is_long(request.config) else ROUNDS):
        for api, version in apis():
            for path, real, own in compared(*sides, api, version, seed):
                said = f"{api} {version}, drawn with {seed}: {path or 'the answer'} is {real}, and here {own}"
                differing[api, path].append(said)
    return differing


@pytest.mark.timeout(600)
def test_responses_are_those_of_kafka(found: dict[tuple[str, str], list[str]]) -> None:
    unlisted = {key: said for key, said in found.items() if key not in LISTED}
    assert not unlisted, "\n".join(f"{len(said)} times, first: {said[0][:2000]}" for said in unlisted.values())


def test_each_listed_difference_is_there(found: dict[tuple[str, str], list[str]]) -> None:
    assert not LISTED.keys() - found.keys() - NOT_ALWAYS
