"""FindCoordinator (10): the broker that coordinates a group or a transactional id. See KIP-699, KIP-890, KIP-932.

Up to version 3 there is one key, in its own fields; from version 4 there are lists.
"""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32, since


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+"):
    """The response to `FindCoordinatorRequest`; from version 4 each key has its own error."""

    class Coordinator(Struct):
        key: str = field("4+")
        node_id: int32 = field("4+")
        host: str = field("4+")
        port: int32 = field("4+")
        error_code: int16 = field("4+")
        error_message: str | None = field("4+", nullable="4+", ignorable=True)

    throttle_time_ms: int32 = field("1+", ignorable=True)
    error_code: int16 = field("0-3")
    error_message: str | None = field("1-3", nullable="1-3", ignorable=True)
    node_id: int32 = field("0-3")
    host: str = field("0-3")
    port: int32 = field("0-3")
    coordinators: list[Coordinator] = field("4+")


class FindCoordinatorRequest(Request[FindCoordinatorResponse], key=10, versions="0-6", flexible="3+"):
    """Asks any broker for coordinators. `key_type` 0: groups, 1: transactional ids, 2 (from version 6): share state.

    A key of type 2 has the form "group:topic id:partition".
    """

    key: str = field("0-3")
    key_type: int8 = field("1+")
    coordinator_keys: list[str] = field("4+")

    KEY_LISTS = since(coordinator_keys)  # several keys, each with its own error (KIP-699)
    SHARE_STATE = 6  # key_type 2 (KIP-932)
