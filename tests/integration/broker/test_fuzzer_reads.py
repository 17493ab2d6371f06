"""`kafwire fuzz` against real brokers: all versions of all APIs that only read are asked, and nothing new turns up."""

from dataclasses import replace

import pytest

import kafwire
from kafwire.errors import ErrorCode
from kafwire.protocol import DescribeAclsRequest, DescribeClientQuotasRequest
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.fuzzer import Campaign, Options
from kafwire.testing.fuzzer.campaign import resolve
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.judge import Violation
from kafwire.testing.fuzzer.safety import CLASS_OF, READ
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS

SEED = 20_261_121
REQUESTS = 300
TIMEOUT = 5.0
LATE = 30.0  # a busy machine is no find

# Kafka's error message names the type that it refuses. If the type is longer, the message exceeds the 32,767 bytes of a
# string, the broker cannot encode its response, and the connection waits for ever.
LONGEST_NAMED_TYPE = 32_767 - len("Unsupported entity type ")
LONG_TYPE = DescribeClientQuotasRequest.ComponentData(entity_type="a" * (LONGEST_NAMED_TYPE + 1))

# Known behaviour of these brokers, (rule, API): a request that shows it, and the error of a client that sends it.
# docs/guide/fuzzing.md tells more.
KNOWN = {
    # A resource type, operation or permission of 0 closes the connection.
    ("closed", "DescribeAcls"): (
        DescribeAclsRequest(resource_type_filter=0, pattern_type_filter=3, operation=2, permission_type=3),
        (kafwire.KafkaConnectionError, "closed"),
    ),
    ("hang", "DescribeClientQuotas"): (
        DescribeClientQuotasRequest(components=[LONG_TYPE]),
        (kafwire.KafkaTimeoutError, "no response from"),
    ),
}
# APIs that are left out, and why.
LEFT_OUT = {
    "DescribeShareGroupOffsets": "waits 28 s for a partition that does not exist; test_messages_broker.py asks it",
    "OffsetFetch": "Kafka 3.9.1 never responds to versions 8 and 9 without groups; test_messages_broker.py asks it",
}


def is_known(case: Case, violation: Violation) -> bool:
    """Return whether an entry of `KNOWN` explains the violation."""
    step = case.steps[violation.step]
    if isinstance(step.message, DescribeClientQuotasRequest):
        longest = max((len(part.entity_type) for part in step.message.components), default=0)
        return violation.rule == "hang" and longest > LONGEST_NAMED_TYPE
    return (violation.rule, step.api) in KNOWN


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_known_differences_still_exist(fixture: str, request: pytest.FixtureRequest) -> None:
    """An entry of `KNOWN` that no broker needs any more would hide a new difference."""
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    with kafwire.Client(cluster.bootstrap, default_api_timeout_ms=2_000) as client:
        for asked, (error, words) in KNOWN.values():
            with pytest.raises(error, match=words):
                client.call(asked)


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_the_longest_entity_type_that_kafka_can_refuse(fixture: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    shorter = DescribeClientQuotasRequest.ComponentData(entity_type="a" * LONGEST_NAMED_TYPE)
    with kafwire.Client(cluster.bootstrap) as client:
        response = client.call(DescribeClientQuotasRequest(components=[shorter]))
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_reads_find_nothing_that_is_not_known(fixture: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    apis = frozenset(api for api, kind in CLASS_OF.items() if kind == READ and api not in LEFT_OUT)
    target = resolve(cluster.bootstrap.partition(",")[0], allow_remote=False, timeout=TIMEOUT)
    limits = Options(requests=REQUESTS, seconds=300, timeout=TIMEOUT, late_seconds=LATE)
    campaign = Campaign(target, replace(limits, seed=SEED, apis=apis, known=is_known))
    print(f"seed {SEED}")
    result = campaign.run()
    assert [find.to_json() for find in result.finds] == []
    advertised = {pair for pair in campaign.coverage.pairs if CLASS_OF[pair[0]] == READ and pair[0] not in LEFT_OUT}
    sent = {pair for pair, counts in campaign.coverage.pairs.items() if counts.sent}
    print(f"{len(advertised)} versions of APIs, {campaign.coverage.sent} requests, {result.cases} cases")
    assert advertised - sent == set()
    assert len(advertised) > 80
