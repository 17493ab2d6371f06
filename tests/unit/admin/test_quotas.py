"""`admin.quotas`: describe and alter client quotas, in both faces."""

from __future__ import annotations

import pickle
from typing import Any, Literal

import pytest

from kafwire import protocol
from kafwire.admin import QuotaEntity, QuotaFilter, QuotaMatch
from kafwire.errors import AdminError, AuthorizationError, BrokerError, ConfigError, ErrorCode, KafkaError
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.flavours import Flavour

ANY: Any = QuotaMatch.ANY
DEFAULT: Literal[QuotaMatch.DEFAULT] = QuotaMatch.DEFAULT
ALICE = QuotaEntity(user="alice")
ALICES_APP = QuotaEntity(user="alice", client_id="app")
USERS = QuotaEntity(user=DEFAULT)
APP = QuotaEntity(client_id="app")
ADDRESS = QuotaEntity(ip="10.0.0.1")
RATES = {"producer_byte_rate": 1000.0}


def filled(flavour: Flavour) -> Any:
    """A client, and quotas of five entities in the cluster."""
    admin = flavour.admin()
    changes = dict.fromkeys((ALICE, ALICES_APP, USERS, APP), RATES)
    flavour.get(admin.alter_client_quotas(changes | {ADDRESS: {"connection_creation_rate": 5}}))
    return admin


def test_quotas_are_set_described_and_removed(flavour: Flavour) -> None:
    admin = filled(flavour)
    found = flavour.get(admin.describe_client_quotas())
    assert found == {
        ALICE: RATES,
        ALICES_APP: RATES,
        USERS: RATES,
        APP: RATES,
        ADDRESS: {"connection_creation_rate": 5.0},
    }
    flavour.get(admin.alter_client_quotas({ALICE: {"consumer_byte_rate": 2e6, "producer_byte_rate": None}}))
    only = QuotaFilter(user="alice", strict=True)
    assert flavour.get(admin.describe_client_quotas(only)) == {ALICE: {"consumer_byte_rate": 2e6}}
    flavour.get(admin.alter_client_quotas({ALICE: {"consumer_byte_rate": None}}))
    assert flavour.get(admin.describe_client_quotas(only)) == {}


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (QuotaFilter(user="alice"), {ALICE, ALICES_APP}),
        (QuotaFilter(user="alice", strict=True), {ALICE}),
        (QuotaFilter(user=DEFAULT), {USERS}),
        (QuotaFilter(user=ANY), {ALICE, ALICES_APP, USERS}),
        (QuotaFilter(user=ANY, client_id="app"), {ALICES_APP}),
        (QuotaFilter(client_id=ANY, strict=True), {APP}),
        (QuotaFilter(ip="10.0.0.1"), {ADDRESS}),
        (QuotaFilter(ip=DEFAULT), set()),
        (QuotaFilter(user="bob"), set()),
    ],
)
def test_filters(flavour: Flavour, wanted: QuotaFilter, found: set[QuotaEntity]) -> None:
    assert set(flavour.get(filled(flavour).describe_client_quotas(wanted))) == found


def test_only_a_validation_sets_no_quota(flavour: Flavour) -> None:
    admin = flavour.admin()
    flavour.get(admin.alter_client_quotas({ALICE: RATES}, validate_only=True))
    assert flavour.get(admin.describe_client_quotas()) == {}
    with pytest.raises(BrokerError, match=r"INVALID_REQUEST.*altering quotas of user 'alice': Invalid configuration"):
        flavour.get(admin.alter_client_quotas({ALICE: {"x": 1}}, validate_only=True))


def test_one_failure_does_not_hide_the_results_of_others(flavour: Flavour) -> None:
    admin = flavour.admin()
    changes: dict[QuotaEntity, dict[str, float]] = {ALICE: {"producer_byte_rate": 0}, APP: RATES}
    with pytest.raises(AdminError, match="1 of 2 failed: user 'alice': INVALID_REQUEST") as caught:
        flavour.get(admin.alter_client_quotas(changes))
    assert (list(caught.value.results), list(caught.value.errors)) == ([APP], [ALICE])
    errors: dict[QuotaEntity, KafkaError] = {}
    flavour.get(admin.alter_client_quotas(changes, on_error=errors.__setitem__))
    assert list(errors) == [ALICE]
    assert flavour.get(admin.describe_client_quotas()) == {APP: RATES}


def test_a_moved_controller_is_retried(flavour: Flavour) -> None:
    moved = [True]
    response = protocol.AlterClientQuotasResponse

    def respond(call: Call) -> Any:
        if not moved:
            return None
        moved.clear()
        entity = [response.EntityData(entity_type="user", entity_name="alice")]
        entry = response.EntryData(error_code=ErrorCode.NOT_CONTROLLER, error_message=None, entity=entity)
        return response(entries=[entry])

    flavour.world.on("AlterClientQuotas", respond)
    flavour.get(flavour.admin().alter_client_quotas({ALICE: RATES}))
    assert len(flavour.world.made("AlterClientQuotas")) == 2


def test_a_lost_connection_is_retried(flavour: Flavour) -> None:
    admin = filled(flavour)
    lost = [True]
    flavour.world.on("DescribeClientQuotas", lambda _: (lost and lost.pop() and HANGUP) or None)
    assert len(flavour.get(admin.describe_client_quotas())) == 5


def test_a_denial_names_the_permission(flavour: Flavour) -> None:
    response = protocol.DescribeClientQuotasResponse
    denied = response(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=None, entries=None)
    flavour.world.on("DescribeClientQuotas", lambda _: denied)
    with pytest.raises(AuthorizationError, match="permits DescribeConfigs on the Cluster"):
        flavour.get(flavour.admin().describe_client_quotas())


def test_a_response_may_have_no_list_of_entities(flavour: Flavour) -> None:
    response = protocol.DescribeClientQuotasResponse
    flavour.world.on("DescribeClientQuotas", lambda _: response(error_message=None, entries=None))
    assert flavour.get(flavour.admin().describe_client_quotas()) == {}


def test_an_unknown_type_in_a_response_is_no_silence(flavour: Flavour) -> None:
    response = protocol.DescribeClientQuotasResponse
    entry = response.EntryData(entity=[response.EntityData(entity_type="planet", entity_name="mars")], values=[])
    flavour.world.on("DescribeClientQuotas", lambda _: response(error_message=None, entries=[entry]))
    with pytest.raises(KafkaError, match="'planet'"):
        flavour.get(flavour.admin().describe_client_quotas())


def test_entities_are_keys_and_lines() -> None:
    assert pickle.loads(pickle.dumps(USERS)) == USERS
    assert str(QuotaEntity(user="alice", client_id=DEFAULT)) == "user 'alice', default client-id"
    assert str(ADDRESS) == "ip '10.0.0.1'"


WRONG: list[tuple[str, tuple[Any, ...], str]] = [
    ("describe_client_quotas", ({"user": "alice"},), r"write QuotaFilter\(...\)"),
    ("describe_client_quotas", (QuotaFilter(user="alice", ip=ANY),), "excludes user and client_id"),
    ("describe_client_quotas", (QuotaFilter(user=""),), "user of a quota"),
    ("alter_client_quotas", ([ALICE],), "write a dict"),
    ("alter_client_quotas", ({"alice": RATES},), "is no QuotaEntity"),
    ("alter_client_quotas", ({QuotaEntity(): RATES},), "names none"),
    ("alter_client_quotas", ({QuotaEntity(user=ANY): RATES},), "for filters"),
    ("alter_client_quotas", ({QuotaEntity(client_id=3): RATES},), "client_id of a quota"),  # type: ignore[arg-type]
    ("alter_client_quotas", ({QuotaEntity(client_id="a", ip="10.0.0.1"): RATES},), "excludes user and client_id"),
    ("alter_client_quotas", ({ALICE: {}},), "one quota at least"),
    ("alter_client_quotas", ({ALICE: 5},), "write a dict"),
    ("alter_client_quotas", ({ALICE: {"producer_byte_rate": "5"}},), "a quota is a number"),
    ("alter_client_quotas", ({ALICE: {"producer_byte_rate": float("inf")}},), "a quota is a number"),
    ("alter_client_quotas", ({ALICE: {"producer_byte_rate": 10**400}},), "a quota is a number"),
    ("alter_client_quotas", ({ALICE: {3: 5}},), "quota: 3"),
]


@pytest.mark.parametrize(("method", "args", "text"), WRONG)
def test_wrong_arguments(flavour: Flavour, method: str, args: tuple[Any, ...], text: str) -> None:
    admin = flavour.admin()
    with pytest.raises(ConfigError, match=text):
        flavour.get(getattr(admin, method)(*args))
    assert not flavour.world.calls
