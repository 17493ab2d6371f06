"""The ACL permissions that each request needs, for the texts of errors. Imports nothing but the error codes.

The operations are those that Kafka's `KafkaApis`, `ControllerApis` and `ConfigHelper` check with the authorizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafwire.error_codes import ErrorCode

__all__ = ["REFUSALS", "RESOURCE_TYPES", "Permission", "needed"]

# The resource type of each refusal, in the words of Kafka's ACLs.
RESOURCE_TYPES: Mapping[int, str] = {
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Topic",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalId",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "User",  # the owner of the token, since KIP-373
}
REFUSALS = frozenset(RESOURCE_TYPES)


class Permission(NamedTuple):
    """An operation, and an alternative permission; "" if there is none."""

    operation: str
    instead: str = ""


_TOPIC = ErrorCode.TOPIC_AUTHORIZATION_FAILED
_GROUP = ErrorCode.GROUP_AUTHORIZATION_FAILED
_CLUSTER = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TRANSACTIONAL_ID = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
_TOKEN = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED

_PERMISSIONS: Mapping[str, Mapping[int, Permission]] = {
    "AddOffsetsToTxn": {_GROUP: Permission("Read"), _TRANSACTIONAL_ID: Permission("Write")},
    "AddPartitionsToTxn": {_TOPIC: Permission("Write"), _TRANSACTIONAL_ID: Permission("Write")},
    "AddRaftVoter": {_CLUSTER: Permission("Alter")},
    "AlterClientQuotas": {_CLUSTER: Permission("AlterConfigs")},
    "AlterConfigs": {
        _TOPIC: Permission("AlterConfigs"),
        _GROUP: Permission("AlterConfigs"),
        _CLUSTER: Permission("AlterConfigs"),
    },
    "AlterPartitionReassignments": {_CLUSTER: Permission("Alter")},
    "AlterReplicaLogDirs": {_CLUSTER: Permission("Alter")},
    "AlterShareGroupOffsets": {_TOPIC: Permission("Read"), _GROUP: Permission("Read")},
    "AlterUserScramCredentials": {_CLUSTER: Permission("Alter")},
    "ConsumerGroupDescribe": {_TOPIC: Permission("Describe"), _GROUP: Permission("Describe")},
    "CreateAcls": {_CLUSTER: Permission("Alter")},
    "CreateDelegationToken": {_TOKEN: Permission("CreateTokens")},
    "CreatePartitions": {_TOPIC: Permission("Alter")},
    "CreateTopics": {_TOPIC: Permission("Create", "Create on the Cluster"), _CLUSTER: Permission("Create")},
    "DeleteAcls": {_CLUSTER: Permission("Alter")},
    "DeleteGroups": {_GROUP: Permission("Delete")},
    "DeleteRecords": {_TOPIC: Permission("Delete")},
    "DeleteShareGroupOffsets": {_TOPIC: Permission("Read"), _GROUP: Permission("Delete")},
    "DeleteTopics": {_TOPIC: Permission("Delete", "Delete on the Cluster"), _CLUSTER: Permission("Delete")},
    "DescribeAcls": {_CLUSTER: Permission("Describe")},
    "DescribeClientQuotas": {_CLUSTER: Permission("DescribeConfigs")},
    "DescribeConfigs": {
        _TOPIC: Permission("DescribeConfigs"),
        _GROUP: Permission("DescribeConfigs"),
        _CLUSTER: Permission("DescribeConfigs"),
    },
    "DescribeGroups": {_GROUP: Permission("Describe")},
    "DescribeLogDirs": {_CLUSTER: Permission("Describe")},
    "DescribeProducers": {_TOPIC: Permission("Read")},
    "DescribeQuorum": {_CLUSTER: Permission("Describe")},
    "DescribeShareGroupOffsets": {_TOPIC: Permission("Describe"), _GROUP: Permission("Describe")},
    "DescribeTopicPartitions": {_TOPIC: Permission("Describe")},
    "DescribeTransactions": {_TRANSACTIONAL_ID: Permission("Describe")},
    "DescribeUserScramCredentials": {_CLUSTER: Permission("Describe")},
    "ElectLeaders": {_CLUSTER: Permission("Alter")},
    "EndTxn": {_TRANSACTIONAL_ID: Permission("Write")},
    "Fetch": {_TOPIC: Permission("Read"), _CLUSTER: Permission("ClusterAction")},
    "FindCoordinator": {_GROUP: Permission("Describe"), _TRANSACTIONAL_ID: Permission("Describe")},
    "IncrementalAlterConfigs": {
        _TOPIC: Permission("AlterConfigs"),
        _GROUP: Permission("AlterConfigs"),
        _CLUSTER: Permission("AlterConfigs"),
    },
    "InitProducerId": {
        _CLUSTER: Permission("IdempotentWrite", "Write on any Topic"),
        _TRANSACTIONAL_ID: Permission("Write"),
    },
    "JoinGroup": {_TOPIC: Permission("Describe"), _GROUP: Permission("Read")},
    "LeaveGroup": {_GROUP: Permission("Read")},
    "ListConfigResources": {_CLUSTER: Permission("DescribeConfigs")},
    "ListOffsets": {_TOPIC: Permission("Describe"), _CLUSTER: Permission("ClusterAction")},
    "ListPartitionReassignments": {_CLUSTER: Permission("Describe")},
    "Metadata": {_TOPIC: Permission("Describe")},
    "OffsetCommit": {_TOPIC: Permission("Read"), _GROUP: Permission("Read")},
    "OffsetDelete": {_TOPIC: Permission("Read"), _GROUP: Permission("Delete")},
    "OffsetFetch": {_TOPIC: Permission("Describe"), _GROUP: Permission("Describe")},
    "OffsetForLeaderEpoch": {_TOPIC: Permission("Describe"), _CLUSTER: Permission("ClusterAction")},
    "Produce": {
        _TOPIC: Permission("Write"),
        _CLUSTER: Permission("IdempotentWrite", "Write on any Topic"),
        _TRANSACTIONAL_ID: Permission("Write"),
    },
    "RemoveRaftVoter": {_CLUSTER: Permission("Alter")},
    "ShareGroupDescribe": {_TOPIC: Permission("Describe"), _GROUP: Permission("Describe")},
    "StreamsGroupDescribe": {_TOPIC: Permission("Describe"), _GROUP: Permission("Describe")},
    "TxnOffsetCommit": {
        _TOPIC: Permission("Read"),
        _GROUP: Permission("Read"),
        _TRANSACTIONAL_ID: Permission("Write"),
    },
    "UnregisterBroker": {_CLUSTER: Permission("Alter")},
    "UnregisterController": {_CLUSTER: Permission("Alter")},
    "UpdateFeatures": {_CLUSTER: Permission("Alter")},
    "WriteTxnMarkers": {_CLUSTER: Permission("Alter", "ClusterAction on the Cluster")},
}


def needed(api: str | None, code: int) -> Permission | None:
    """Return the permission that a request refused with `code` needs; None if it is not known.

    `api` is the request's name without "Request".
    """
    return _PERMISSIONS.get(api or "", {}).get(code)
