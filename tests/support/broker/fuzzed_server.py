"""A small server for the fuzzer's tests: right in all it does, but for the one bug that is planted in it.

It serves a handful of APIs from kafwire's own messages. Bytes that are no request of its APIs close the connection. A
bug is a function that gets each request and changes what becomes of it; `None` is the right server.
"""

import itertools
import socket
import struct
from collections.abc import Callable
from typing import Any

from kafwire import protocol
from kafwire.errors import ErrorCode, ProtocolError
from kafwire.protocol.api.heartbeat import HeartbeatResponse
from kafwire.protocol.framing import request_header_version
from kafwire.protocol.header import RequestHeader
from kafwire.testing.fuzzer.safety import request_class, request_name
from tests.support.socket_server import SocketServer, end, receive

TOPICS = {"one": 1, "two": 2}
SERVED = ("ApiVersions", "Metadata", "DescribeGroups", "Heartbeat", "FindCoordinator")

Bug = Callable[["Exchange"], None]

# By the client's port: how many bytes of a connection are read and dealt with. A client that has sent no more than this
# and has nothing to read will not get a response any more, however long it waits.
DEALT_WITH: dict[int, int] = {}


class Exchange:
    """One request, and what the server is about to do: a bug changes `frames`, closes, or lets the server die."""

    def __init__(self, server: "FuzzedServer", api: str, version: int, request: Any, correlation_id: int) -> None:
        self.server = server
        self.api = api
        self.version = version
        self.request = request
        self.correlation_id = correlation_id
        self.response: Any = None
        self.frames: list[bytes] = []
        self.close = False

    def encode(self) -> None:
        """Make the frame from `response`."""
        flexible = self.version >= type(self.response).flexible_from and self.api != "ApiVersions"
        self.frames = [
            struct.pack(">i", self.correlation_id) + (b"\0" if flexible else b"") + self.response.encode(self.version)
        ]


class FuzzedServer(SocketServer):
    """Listens on a free port of the loopback address."""

    def __init__(
        self, bug: Bug | None = None, *, on_bytes: Callable[["FuzzedServer", bytes], None] | None = None
    ) -> None:
        self.bug = bug
        self.on_bytes = on_bytes
        self.counter = itertools.count()
        self.deaths = 0
        super().__init__(self._serve)

    def die(self) -> None:
        """Stop listening and drop all connections, as a crash would."""
        self.deaths += 1
        self.stop()

    def _serve(self, connection: socket.socket) -> None:
        # Or a response is held back until the one before is acknowledged, though it is dealt with.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        port = connection.getpeername()[1]
        dealt_with = 0
        try:
            while True:
                DEALT_WITH[port] = dealt_with
                head = receive(connection, 4)
                if head is None:
                    return
                (size,) = struct.unpack(">i", head)
                if not 8 <= size <= 1 << 20:
                    if self.on_bytes is not None:
                        self.on_bytes(self, head)
                    return
                frame = receive(connection, size)
                if frame is None:
                    return
                if self.on_bytes is not None:
                    self.on_bytes(self, frame)
                exchange = self._handle(frame)
                for response in exchange.frames:
                    connection.sendall(struct.pack(">i", len(response)) + response)
                if exchange.close:
                    return
                dealt_with += 4 + size
        except (OSError, ProtocolError):
            pass
        finally:
            DEALT_WITH.pop(port, None)
            end(connection)

    def _handle(self, frame: bytes) -> Exchange:
        key, version, correlation_id = struct.unpack_from(">hhi", frame)
        name = request_name(key)
        if name not in SERVED:
            raise ProtocolError("not served")
        found = request_class(name)
        if name == "ApiVersions" and not 0 <= version <= found.max_stable_version:
            exchange = Exchange(self, name, 0, None, correlation_id)
            exchange.response = _versions(ErrorCode.UNSUPPORTED_VERSION)
        else:
            _, used = RequestHeader.plan(request_header_version(found, version)).decode_prefix(frame)
            request = found.decode(memoryview(frame)[used:], version)
            exchange = Exchange(self, name, version, request, correlation_id)
            exchange.response = _RESPONSES[name](self, request, version)
        exchange.encode()
        if self.bug is not None:
            self.bug(exchange)
        return exchange

    def metadata(self, request: Any, version: int) -> Any:
        """Brokers and topics; names that are not there get an error."""
        response = protocol.MetadataResponse
        asked = [topic.name or "" for topic in request.topics or ()]
        if request.topics is None or (version == 0 and not asked):
            asked = list(TOPICS)
        topics = [
            response.MetadataResponseTopic(
                name=name,
                topic_id=next((topic.topic_id for topic in request.topics or () if topic.name == name), None)
                or protocol.MetadataResponse.MetadataResponseTopic().topic_id,
                error_code=0 if name in TOPICS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                partitions=[
                    response.MetadataResponsePartition(
                        partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1]
                    )
                    for index in range(TOPICS.get(name, 0))
                ],
            )
            for name in dict.fromkeys(asked)
        ]
        for topic in request.topics or ():
            if topic.name is None:
                topics = [each for each in topics if each.name]
                topics.append(
                    response.MetadataResponseTopic(name=None, topic_id=topic.topic_id, error_code=100)
                    if version >= 12
                    else response.MetadataResponseTopic(name="", topic_id=topic.topic_id, error_code=100)
                )
        brokers = [response.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.port)]
        return response(brokers=brokers, topics=topics, controller_id=1)


def _versions(code: int = 0) -> Any:
    keys = [
        protocol.ApiVersionsResponse.ApiVersion(
            api_key=request_class(name).api_key,
            min_version=request_class(name).min_version,
            max_version=request_class(name).max_stable_version,
        )
        for name in SERVED
    ]
    return protocol.ApiVersionsResponse(error_code=code, api_keys=keys)


def _describe(_: FuzzedServer, request: Any, version: int) -> Any:
    response: Any = protocol.MESSAGES["DescribeGroupsResponse"]
    del version
    return response(
        groups=[response.DescribedGroup(group_id=group, group_state="Dead") for group in set(request.groups)]
    )


def _find(server: FuzzedServer, request: Any, version: int) -> Any:
    response: Any = protocol.MESSAGES["FindCoordinatorResponse"]
    if version < 4:
        return response(node_id=1, host="127.0.0.1", port=server.port)
    return response(
        coordinators=[
            response.Coordinator(key=key, node_id=1, host="127.0.0.1", port=server.port)
            for key in dict.fromkeys(request.coordinator_keys)
        ]
    )


_RESPONSES: dict[str, Callable[[FuzzedServer, Any, int], Any]] = {
    "ApiVersions": lambda server, request, version: _versions(),
    "Metadata": FuzzedServer.metadata,
    "DescribeGroups": _describe,
    "Heartbeat": lambda server, request, version: HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID),
    "FindCoordinator": _find,
}
