"""`kafwire fuzz` against real brokers: all versions of all APIs that only read are asked, and nothing new turns up."""

import pytest

import kafwire
from kafwire.protocol import DescribeAclsRequest
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.fuzzer import Campaign, Options
from kafwire.testing.fuzzer.campaign import resolve
from kafwire.testing.fuzzer.safety import CLASS_OF, READ
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS

SEED = 20_261_121
REQUESTS = 300
TIMEOUT = 20.0  # a busy machine is no find

# What these brokers are known to do, (rule, API), and a request that shows it; docs/fuzzing.md tells more.
KNOWN = {
    # A resource type, operation or permission of 0 closes the connection.
    ("closed", "DescribeAcls"): DescribeAclsRequest(
        resource_type_filter=0, pattern_type_filter=3, operation=2, permission_type=3
    ),
}
# APIs that are left out, and why.
LEFT_OUT = {
    "DescribeShareGroupOffsets": "waits 28 s for a partition that does not exist; test_messages_broker.py asks it",
    "OffsetFetch": "Kafka 3.9.1 never answers versions 8 and 9 without groups; test_messages_broker.py asks it",
}


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_what_is_known_is_so_still(fixture: str, request: pytest.FixtureRequest) -> None:
    """An entry of `KNOWN` that no broker needs any more would hide what is new."""
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    with kafwire.Client(cluster.bootstrap, default_api_timeout_ms=5_000) as client:
        for asked in KNOWN.values():
            with pytest.raises(kafwire.KafkaConnectionError, match="closed"):
                client.call(asked)


@pytest.mark.parametrize("fixture", seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def test_reads_find_nothing_that_is_not_known(fixture: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    apis = frozenset(api for api, kind in CLASS_OF.items() if kind == READ and api not in LEFT_OUT)
    target = resolve(cluster.bootstrap.partition(",")[0], allow_remote=False, timeout=TIMEOUT)
    campaign = Campaign(target, Options(seed=SEED, seconds=300, requests=REQUESTS, timeout=TIMEOUT, apis=apis))
    print(f"seed {SEED}")
    result = campaign.run()
    new = [find.to_json() for find in result.finds if (find.violation.rule, find.api) not in KNOWN]
    assert new == []
    advertised = {pair for pair in campaign.coverage.pairs if CLASS_OF[pair[0]] == READ and pair[0] not in LEFT_OUT}
    sent = {pair for pair, counts in campaign.coverage.pairs.items() if counts.sent}
    print(f"{len(advertised)} versions of APIs, {campaign.coverage.sent} requests, {result.cases} cases")
    assert advertised - sent == set()
    assert len(advertised) > 80
