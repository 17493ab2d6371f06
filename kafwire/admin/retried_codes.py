"""The error codes after which an admin call sends the request of a key again, by the broker that executes it.

Java retries the same codes. Other retriable codes are final: UNKNOWN_TOPIC_OR_PARTITION of a topic to delete.
"""

from __future__ import annotations

from kafwire.cluster.coordinator import COORDINATOR_ERRORS
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.error_codes import ErrorCode

ANYWHERE: frozenset[int] = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.THROTTLING_QUOTA_EXCEEDED})
AT_COORDINATOR = ANYWHERE | {*COORDINATOR_ERRORS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
AT_LEADER = ANYWHERE | LEADER_ERRORS | {ErrorCode.REQUEST_TIMED_OUT}  # it waited for its followers, or its storage
