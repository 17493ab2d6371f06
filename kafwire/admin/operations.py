"""The operations that a client may perform on a resource, from the bit fields of responses (KIP-430). Pure."""

from __future__ import annotations

__all__ = ["operations_of"]

NOT_REQUESTED = -0x80000000
# By the bit: Kafka's codes of ACL operations.
_NAMES = {
    3: "Read",
    4: "Write",
    5: "Create",
    6: "Delete",
    7: "Alter",
    8: "Describe",
    9: "ClusterAction",
    10: "DescribeConfigs",
    11: "AlterConfigs",
    12: "IdempotentWrite",
    13: "CreateTokens",
    14: "DescribeTokens",
    15: "TwoPhaseCommit",
}


def operations_of(bits: int) -> frozenset[str] | None:
    """Return the names of operations, as ACLs have them; None if the broker did not report them."""
    if bits == NOT_REQUESTED:
        return None
    return frozenset(name for bit, name in _NAMES.items() if bits >> bit & 1)
