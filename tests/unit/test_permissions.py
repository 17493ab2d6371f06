"""The operations that Kafka's ACLs have to permit for each request."""

from kafwire.error_codes import ErrorCode
from kafwire.permissions import _PERMISSIONS, REFUSALS, needed
from kafwire.protocol import MESSAGES

OPERATIONS = {"Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs"}
OPERATIONS |= {"AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens", "TwoPhaseCommit"}


def test_names_are_kafkas() -> None:
    assert {f"{api}Request" for api in _PERMISSIONS} <= {message.__name__ for message in MESSAGES.values()}
    for by_code in _PERMISSIONS.values():
        assert by_code.keys() <= REFUSALS
        assert {permission.operation for permission in by_code.values()} <= OPERATIONS


def test_all_refusals_are_known() -> None:
    assert {code for code in ErrorCode if code.name.endswith("AUTHORIZATION_FAILED")} == REFUSALS


def test_unknown_operations() -> None:
    assert needed(None, ErrorCode.TOPIC_AUTHORIZATION_FAILED) is None
    assert needed("Produce", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED) is None
    assert needed("Produce", ErrorCode.NONE) is None
