"""BrokerHeartbeat (63): a registered broker keeps its session with the active controller alive. See KIP-631.

Only controllers serve it. Version 1 reports failed log directories (KIP-858), version 2 cordoned ones (KIP-1066).
"""

from kafwire.protocol.spec import UUID, Request, Response, field, int16, int32, int64


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    """The response to `BrokerHeartbeatRequest`: whether the broker may serve clients, and whether it may stop."""

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    is_caught_up: bool = field("0+")
    is_fenced: bool = field("0+", default=True)
    should_shut_down: bool = field("0+")


class BrokerHeartbeatRequest(Request[BrokerHeartbeatResponse], key=63, versions="0-2", flexible="0+"):
    """Reports the broker's position in the metadata log, and whether it wants to be fenced or to shut down.

    `cordoned_log_dirs=None` means not known yet, unlike an empty list.
    """

    broker_id: int32 = field("0+")
    broker_epoch: int64 = field("0+", default=-1)
    current_metadata_offset: int64 = field("0+")
    want_fence: bool = field("0+")
    want_shut_down: bool = field("0+")
    offline_log_dirs: list[UUID] = field("1+", tag=0)
    cordoned_log_dirs: list[UUID] | None = field("2+", nullable="2+", tag=1, default=None)
