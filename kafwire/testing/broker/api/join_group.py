"""JoinGroup (11): into a classic group. See KIP-62, KIP-345 (static members), KIP-394, KIP-559, KIP-800, KIP-814."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker.classic_group import ClassicGroup, Joined, member_of
from kafwire.testing.broker.group_coordinator import GroupCoordinator
from kafwire.testing.broker.request import LATER, Answer, Request

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

ID_REQUIRED = 4
NULL_PROTOCOL = 7


def handle(state: ClusterState, request: Request) -> Answer:
    """Answer when all members have joined."""
    message = request.message
    groups: GroupCoordinator = state.part(GroupCoordinator)

    def answer(joined: Joined) -> None:
        state.reply(request, _response(request, joined))

    code = _refuses(state, groups, request)
    if code:
        return _response(request, Joined(code, message.member_id))
    if not message.member_id:
        code, member_id = _join_new(state, groups.ensure(message.group_id), request, answer)
        return _response(request, Joined(code, member_id)) if code else LATER
    group = groups.groups.get(message.group_id)
    code = ErrorCode.UNKNOWN_MEMBER_ID if group is None else _join_again(group, request, answer)
    return _response(request, Joined(code, message.member_id)) if code else LATER


def _refuses(state: ClusterState, groups: GroupCoordinator, request: Request) -> int:
    message = request.message
    if not message.group_id:
        return ErrorCode.INVALID_GROUP_ID
    code = groups.refuses(request, message.group_id)
    if code:
        return code
    least, most = (state.config_int(f"group.{end}.session.timeout.ms") for end in ("min", "max"))
    if not least <= message.session_timeout_ms <= most:
        return ErrorCode.INVALID_SESSION_TIMEOUT
    group = groups.groups.get(message.group_id)
    if group is None:
        return 0 if message.protocol_type and message.protocols else ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    size = len(group.members) + len(group.pending)
    is_known = message.member_id in group.members or message.member_id in group.pending
    replaces = message.group_instance_id in group.static
    if not is_known and not replaces and size >= state.config_int("group.max.size"):
        return ErrorCode.GROUP_MAX_SIZE_REACHED
    protocols = [(each.name, bytes(each.metadata)) for each in message.protocols]
    return 0 if group.supports(message.protocol_type, protocols) else ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def _join_new(
    state: ClusterState, group: ClassicGroup, request: Request, answer: Callable[[Joined], None]
) -> tuple[int, str]:
    """Somebody without a member id joins. Returns an error code, and the id that was given."""
    message = request.message
    instance_id = message.group_instance_id
    member_id = f"{instance_id or request.client_id or ''}-{state.make_id()}"
    if instance_id is None and request.version >= ID_REQUIRED:
        group.expect(member_id, message.session_timeout_ms)
        return ErrorCode.MEMBER_ID_REQUIRED, member_id
    group.join_new(member_of(request, member_id), message.protocol_type, answer, version=request.version)
    return 0, member_id


def _join_again(group: ClassicGroup, request: Request, answer: Callable[[Joined], None]) -> int:
    """A member joins, for the first time with its id or again. Returns an error code."""
    message = request.message
    if message.member_id in group.pending:
        if message.group_instance_id is not None:
            return ErrorCode.UNKNOWN_MEMBER_ID  # ids are not given to static members first
        member = member_of(request, message.member_id)
        group.join_new(member, message.protocol_type, answer, version=request.version)
        return 0
    code = group.refuses_member(message.member_id, message.group_instance_id)
    if not code:
        member = group.members[message.member_id]
        as_said = member_of(request, message.member_id)
        member.session_timeout_ms = as_said.session_timeout_ms
        member.rebalance_timeout_ms = as_said.rebalance_timeout_ms
        member.client_id, member.host = as_said.client_id, as_said.host
        group.rejoin(member, as_said.protocols, answer)
    return code


def _response(request: Request, joined: Joined) -> Any:
    response = protocol.JoinGroupResponse
    no_name = None if request.version >= NULL_PROTOCOL else ""
    return response(
        error_code=joined.error_code,
        generation_id=joined.generation,
        protocol_type=joined.protocol_type,
        protocol_name=no_name if joined.protocol_name is None else joined.protocol_name,
        leader=joined.leader,
        skip_assignment=joined.skip_assignment,
        member_id=joined.member_id,
        members=[
            response.JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata(joined.protocol_name),
            )
            for member in joined.members
        ],
    )
