"""The findings of `kafwire doctor`: one step after the other, each with the problem and a remedy."""

import socket
import time
import uuid
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from kafwire import Client, Producer, protocol, scan
from kafwire.cluster.broker_connection import host_and_port
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthenticationError, AuthorizationError, BrokerError, ConfigError, KafkaError, ProtocolError
from kafwire.protocol.versions import ALWAYS_NEEDED, lacking, release
from kafwire.security.tls import described

__all__ = ["Finding", "examine"]

_SECURITY_CHANGE = "compare security_protocol, sasl_mechanism, user, password and certificates with the listener's"
# Brokers log the cause of these errors, and do not send it.
_LOGGED = frozenset({ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REQUEST})
# The port accepts connections, but the server does not speak Kafka's protocol as configured.
_PROTOCOL_CHANGE = "check which server listens on this port, and which security_protocol it expects"
_TOPICS = "kafwire-doctor-"
_VALUE = b"from kafwire doctor"
_LOOK_UP_S = 3.0
_CONNECT_S = 2.0
_GREETING_S = 4.0
_PARALLEL = 16


@dataclass(frozen=True)
class Finding:
    """One step: success, observation, and the remedy after a failure."""

    step: str
    ok: bool
    seen: str
    change: str = ""


def examine(
    host: str, port: int, timeout_s: float, options: Mapping[str, Any] = MappingProxyType({}), *, writes: bool = True
) -> Generator[Finding, None, None]:
    """Check a broker, and stop at a failed step that later steps need.

    `timeout_s` is roughly the time limit of all steps; `options` are a client's.
    """
    until = time.monotonic() + timeout_s
    server = host_and_port(host, port)
    name, addresses = look_up(host, port, min(_LOOK_UP_S, timeout_s))
    yield name
    if not name.ok:
        return
    connection = connect(addresses, port, min(_CONNECT_S, timeout_s))
    yield connection
    if not connection.ok:
        return
    left_ms = max(500, round(1000 * min(_GREETING_S, until - time.monotonic())))
    security = options.get("security_protocol", "PLAINTEXT").upper()
    try:
        client = Client(server, **{"client_id": "kafwire-doctor", **options, "default_api_timeout_ms": left_ms})
    except ConfigError as error:
        yield Finding("options", False, _short(error), "correct the options in -X and -F")
        return
    with client:
        try:
            greeting = client.call(_greeting())
            metadata = client.metadata([])
        except AuthenticationError as error:
            yield Finding("security", False, _short(error), _SECURITY_CHANGE)
            return
        except KafkaError as error:
            change = _change_for(error) if isinstance(error, BrokerError) else _PROTOCOL_CHANGE
            yield Finding("protocol", False, _short(error), change)
            return
        if security != "PLAINTEXT":
            yield Finding("security", True, _secured(security, options))
        versions = {key.api_key: (key.min_version, key.max_version) for key in greeting.api_keys}
        features = {feature.name: feature.max_version for feature in greeting.supported_features}
        yield Finding("protocol", True, f"it is {release(versions, features)}, cluster {metadata.cluster_id}")
        yield judge_versions(versions)
        advertised = judge_advertised(server, metadata.brokers, min(_CONNECT_S, timeout_s))
        yield from advertised
        if not writes or not all(finding.ok for finding in advertised):
            return
    left_ms = max(1000, round(1000 * (until - time.monotonic())))
    yield from there_and_back(server, {**options, "default_api_timeout_ms": left_ms})


def _secured(security: str, options: Mapping[str, Any]) -> str:
    """Describe how the connection is protected."""
    parts = []
    if security.endswith("SSL"):
        parts.append(f"TLS by {described()}")
        if str(options.get("enable_ssl_certificate_verification", True)).lower() == "false":
            parts.append("any server may pose as the broker: its certificate is not verified")
    if security.startswith("SASL_"):
        user = f" as {options['sasl_username']!r}" if options.get("sasl_username") else ""
        parts.append(f"accepted by {options['sasl_mechanism']}{user}")
    return f"{security}: {', '.join(parts)}"


def look_up(host: str, port: int, timeout_s: float) -> tuple[Finding, list[tuple[Any, ...]]]:
    """Resolve a name."""
    found = _resolved(host, port, timeout_s)
    if isinstance(found, str):
        return Finding("name", False, found, f"check the spelling of {host!r}, /etc/hosts and the name server"), []
    seen = ", ".join(dict.fromkeys(str(address[0]) for address in found))
    return Finding("name", True, seen if seen == host else f"{host} is {seen}"), found


def connect(addresses: list[tuple[Any, ...]], port: int, timeout_s: float) -> Finding:
    """Connect to each address; one success is enough."""
    with ThreadPoolExecutor(_PARALLEL) as threads:
        problems = list(threads.map(lambda address: _refusal(address, timeout_s), addresses))
    seen = [
        f"{address[0]} {'accepts connections' if problem is None else problem}"
        for address, problem in zip(addresses, problems, strict=True)
    ]
    return Finding(
        "connection",
        None in problems,
        f"port {port}: {', '.join(dict.fromkeys(seen))}",
        ""
        if None in problems
        else "check that a broker runs and listens there, on an interface this machine can reach "
        "(listeners=PLAINTEXT://0.0.0.0:9092 for all; a container's port must be published), without a firewall",
    )


def judge_versions(versions: Mapping[int, tuple[int, int]]) -> Finding:
    """Compare a broker's API versions with those that kafwire needs."""
    if missing := lacking(versions, ALWAYS_NEEDED):
        return Finding("versions", False, "; ".join(missing), "upgrade the broker; see docs/reference/compatibility.md")
    if missing := lacking(versions):
        return Finding("versions", True, f"the broker lacks some APIs, for these uses alone: {'; '.join(missing)}")
    return Finding("versions", True, "the broker has all APIs and versions that kafwire needs")


def judge_advertised(server: str, brokers: Sequence[Any], timeout_s: float) -> list[Finding]:
    """Check that each advertised address can be reached from this machine."""
    with ThreadPoolExecutor(_PARALLEL) as threads:
        problems = list(threads.map(lambda broker: _unreached(broker, timeout_s), brokers))
    found = []
    for broker, problem in zip(brokers, problems, strict=True):
        where = f"broker {broker.node_id} is at {host_and_port(broker.host, broker.port)}"
        change = (
            f"{server} responds, but the cluster directs clients to {host_and_port(broker.host, broker.port)}: set "
            "advertised.listeners of that broker to an address that this machine can reach"
        )
        found.append(
            Finding("advertised", True, f"{where}, which accepts connections")
            if problem is None
            else Finding("advertised", False, f"{where}: {problem}", change)
        )
    return found


def there_and_back(server: str, options: Mapping[str, Any]) -> Generator[Finding, None, None]:
    """Create a topic, send a record and read it, delete the topic."""
    topic = f"{_TOPICS}{uuid.uuid4().hex[:12]}"
    with Client(server, **options) as client:
        try:
            client.create_topic(topic, partitions=1)
        except (KafkaError, ProtocolError) as error:
            yield Finding("topic", False, f"creating {topic}: {_short(error)}", _change_for(error))
            return
        try:
            yield Finding("topic", True, f"created {topic}")  # a caller that stops here leaves no topic behind
            limit_ms = options["default_api_timeout_ms"]
            limits = dict.fromkeys(("max_block_ms", "request_timeout_ms", "delivery_timeout_ms"), limit_ms)
            with Producer(server, **{**options, **limits, "linger_ms": 0}) as producer:
                sent = producer.send(topic, _VALUE).result(limit_ms / 1000)
            with scan(server, topic, **options) as found:
                values = [record.value for batch in found.batches() for record in batch]
            same = values == [_VALUE]
            seen = f"sent and read a record at offset {sent.offset}" if same else f"sent {_VALUE!r}, read {values!r}"
            yield Finding("record", same, seen, "")
        except (KafkaError, ProtocolError, TimeoutError) as error:
            yield Finding("record", False, _short(error), _change_for(error))
        finally:
            try:
                client.delete_topic(topic)
                deleted = Finding("deletion", True, f"deleted {topic}")
            except (KafkaError, ProtocolError) as error:
                deleted = Finding("deletion", False, _short(error), f"delete {topic} by hand")
        yield deleted


def _greeting() -> Any:
    return protocol.ApiVersionsRequest(client_software_name="kafwire-doctor", client_software_version="0")


def _resolved(host: str, port: int, timeout_s: float) -> list[tuple[Any, ...]] | str:
    """Return socket addresses, or the reason why the name does not resolve."""
    threads = ThreadPoolExecutor(1)
    try:
        found = threads.submit(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM).result(timeout_s)
    except TimeoutError:
        return f"{host!r} does not resolve: no response within {timeout_s:g} s"
    except (OSError, UnicodeError) as error:
        return f"{host!r} does not resolve: {getattr(error, 'strerror', None) or error}"
    finally:
        threads.shutdown(wait=False, cancel_futures=True)
    return list(dict.fromkeys(address for *_, address in found))


def _refusal(address: tuple[Any, ...], timeout_s: float) -> str | None:
    """Return why an address does not accept a connection; None if it does."""
    try:
        socket.create_connection(address[:2], timeout_s).close()
    except TimeoutError:
        return f"does not respond within {timeout_s:g} s"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return None


def _unreached(broker: Any, timeout_s: float) -> str | None:
    addresses = _resolved(broker.host, broker.port, timeout_s)
    if isinstance(addresses, str):
        return addresses
    problems = [_refusal(address, timeout_s) for address in addresses]
    return None if None in problems else ", ".join(map(str, dict.fromkeys(problems)))


def _change_for(error: Exception) -> str:
    """Return a remedy if one is known. The error's own text has its cause."""
    if isinstance(error, BrokerError):
        if isinstance(error, AuthorizationError):
            return f"allow it for this client with an ACL{_acl(error)}; --no-write skips this step"
        if error.name == "INVALID_REPLICATION_FACTOR":
            return "set default.replication.factor to at most the number of brokers, or start more brokers"
        if error.name == "POLICY_VIOLATION":
            return "the cluster's policy forbids it; --no-write skips this step"
        if error.code in _LOGGED:
            return "see the broker's log"
        if error.retriable:
            return "this may be temporary: run the command again"
    return ""


def _acl(error: AuthorizationError) -> str:
    """Return the missing permission as options of `kafka-acls.sh`."""
    if error.operation is None:
        return ""
    if error.resource_type == "Topic":  # the next run's topic has another name
        resource = f"--topic {_TOPICS} --resource-pattern-type prefixed"
    else:
        resource = {"Cluster": "--cluster"}.get(error.resource_type, f"for {error.resource_type}")
    return f": kafka-acls.sh --add --operation {error.operation} {resource}"


def _short(error: Exception) -> str:
    return " ".join(str(error).split())
