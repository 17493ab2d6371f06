"""docs/reference/admin.md: each method that it names for kafwire exists on both faces."""

from __future__ import annotations

import operator
from pathlib import Path

import pytest

import kafwire
from tests.support.doc_names import rows, spans

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "reference" / "admin.md").read_text()
ROWS = [row for row in rows(TEXT) if row != ["Java", "kafwire", "compared"]]
# Methods that the table names and `Admin` does not have yet. Where this set is empty, the table holds as a whole.
PLANNED = {
    # topics and configurations
    *("alter_configs", "delete_records", "describe_configs", "describe_topics"),
    *("list_config_resources", "list_offsets", "list_topics"),
    # cluster
    *("add_raft_voter", "alter_partition_reassignments", "alter_replica_log_dirs", "describe_cluster"),
    *("describe_features", "describe_log_dirs", "describe_metadata_quorum", "describe_replica_log_dirs"),
    *("elect_leaders", "list_partition_reassignments", "remove_raft_voter", "unregister_broker", "update_features"),
    # groups
    *("alter_group_offsets", "delete_group_offsets", "delete_groups", "describe_groups"),
    *("list_group_offsets", "list_groups", "remove_members"),
    # security
    *("alter_client_quotas", "alter_user_scram_credentials", "create_acls", "delete_acls", "describe_acls"),
    *("describe_client_quotas", "describe_user_scram_credentials"),
}


@pytest.mark.parametrize("row", ROWS, ids=[row[0].strip("`") for row in ROWS])
def test_a_method_of_the_table_exists(row: list[str]) -> None:
    assert len(row) == 3
    name = spans(row[1])[0]
    if "." in name:
        assert operator.attrgetter(name)(kafwire)
    elif name not in PLANNED:
        for face in (kafwire.Admin, kafwire.AsyncAdmin):
            assert callable(getattr(face, name)), name


def test_planned_methods_are_of_the_table() -> None:
    assert {spans(row[1])[0] for row in ROWS} >= PLANNED


def test_each_method_of_java_is_named_once() -> None:
    names = [row[0] for row in ROWS]
    assert len(set(names)) == len(names) >= 55
