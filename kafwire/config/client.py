"""`ClientConfig`: the options of every client, and the checks of a mapping of options.

Names are Kafka's with underscores; units come last in the name. A mistake raises a `ConfigError` with the option, the
value and the allowed values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, replace
from typing import Any, Self

from kafwire.config.bootstrap import parse_servers, protocols_of, shown_servers
from kafwire.config.checks import Number, OneOf, OrDefault, any_text, described_by, flag, option
from kafwire.config.pairs import yielding
from kafwire.config.security import SecurityConfig
from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass

MIB = 1 << 20
# Producers and consumers have these options.
METRICS_HOOK = (
    "Function that gets the result of `metrics()`, in a separate thread. kafwire skips a call while the last one still "
    "runs. None: no calls."
)
METRICS_HOOK_TYPE = "Callable[[dict[str, Any]], object] | None"
METRICS_PUSH = (
    "The client pushes metrics to the cluster while brokers subscribe to them (KIP-714). Brokers without a plug-in for "
    "metrics of clients do not subscribe."
)
# Readers and producers have these options.
FORMAT = "Format of {}, such as `kafwire.Text()`; another name of the option {}."
METRICS_INTERVAL = "Time between two calls of metrics_hook."
NO_SERVERS = 'option bootstrap_servers is missing: give "host:port" of one broker or more'
_A_DICT = (
    "option bootstrap_servers is a dict of options: with underscores they are keyword arguments, "
    'kafwire.{kind}("localhost:9092", client_id="billing")'
)
_DOTTED = '; in Kafka\'s spelling they go to from_config, kafwire.{kind}.from_config({{"bootstrap.servers": ...}})'


@described_by()
@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SecurityConfig):
    """Options of `Client` and `AsyncClient`, which every other client has too."""

    bootstrap_servers: tuple[tuple[str, int], ...] = option(
        MISSING,
        parse_servers,
        "Addresses of one broker or more, from which the client learns the others: `host:port`, with commas between "
        "several, or a list.",
        typed="str | Iterable[str]",
        names="Java librdkafka librdkafka=metadata.broker.list",
        shown=shown_servers,
    )
    client_id: str = option(
        "kafwire",
        OrDefault("kafwire", any_text),
        "Name of this client in the logs, metrics and quotas of the brokers. None is the default.",
    )
    request_timeout_ms: int = option(
        30_000,
        Number(1),
        "Time from the send of a request to its response. A request without a response closes the connection.",
        names="Java librdkafka librdkafka=socket.timeout.ms",
    )
    default_api_timeout_ms: int = option(60_000, Number(1), "Time limit of a call, with all its retries.", names="Java")
    socket_connection_setup_timeout_ms: int = option(
        10_000, Number(1), "Time limit of each step of a new connection: the look-up of the host name, TCP, TLS, SASL."
    )
    retry_backoff_ms: int = option(
        100, Number(0), "Pause before the first retry. Each further pause is twice as long, +-20 % (KIP-580)."
    )
    retry_backoff_max_ms: int = option(1_000, Number(0), "Longest pause between two retries.")
    reconnect_backoff_ms: int = option(
        50,
        Number(0),
        "Pause between the first failure to connect to a broker and the next attempt. Each further pause is twice as "
        "long, +-20 %.",
    )
    reconnect_backoff_max_ms: int = option(1_000, Number(0), "Longest pause between two attempts to connect.")
    connections_max_idle_ms: int = option(
        540_000,
        Number(-1),
        "The client closes a connection after this time without a request, unless a response is due, and opens it "
        "again when needed; 0 and -1: never. The default is below the limit of the brokers, 10 minutes, so that no "
        "request meets a closed connection.",
    )
    metadata_max_age_ms: int = option(
        300_000,
        Number(1),
        "The client refreshes metadata of this age.",
        names="Java librdkafka librdkafka=topic.metadata.refresh.interval.ms",
    )
    metadata_recovery_strategy: str = option(
        "rebootstrap",
        OneOf("rebootstrap", "none"),
        'With "rebootstrap", a client that reaches no known broker connects to the bootstrap servers again (KIP-899).',
    )
    metadata_recovery_rebootstrap_trigger_ms: int = option(
        300_000,
        Number(0),
        "After this time without metadata from known brokers, the client connects to the bootstrap servers (KIP-1102).",
    )
    metadata_cluster_check_enable: bool = option(
        True,
        flag,
        "Connections name cluster and node to each known broker, so that another broker at its address refuses them "
        '(KIP-1242, Kafka 4.4). The check is off if metadata_recovery_strategy is "none".',
        names="Java",
    )
    client_rack: str = option(
        "",
        OrDefault("", any_text),
        "Rack of this client. Brokers may name a nearby replica to read from (KIP-392). None is the default.",
    )
    max_frame_bytes: int = option(
        100 * MIB,
        Number(1024),
        "Limit of one response. A longer frame closes the connection.",
        names="librdkafka=receive.message.max.bytes",
    )
    enable_metrics_push: bool = option(
        False, flag, METRICS_PUSH + " Client and Admin push none by default, like Java's Admin."
    )

    @classmethod
    def build(cls, options: Mapping[str, Any], *, others: Iterable[str] = ()) -> Self:
        """Check `options` and return the configuration; raises `ConfigError` for an unknown name or a bad value.

        `others` are names of arguments beside the options: a misspelt name may stand for one of them.
        """
        if isinstance(options.get("bootstrap_servers"), Mapping):
            # Without the dict's text, in which a password may stand.
            kind = cls.__name__.removesuffix("Config")
            text = _A_DICT.format(kind="scan") if kind == "Scan" else (_A_DICT + _DOTTED).format(kind=kind)
            raise ConfigError(text)
        known = {item.name: item for item in fields(cls)}
        checked = {}
        for name, value in options.items():
            if name not in known:
                from kafwire.config.names import hint  # names of other clients, for errors and configuration files

                raise ConfigError(f"unknown option {name!r}{hint(name, [*known, *others], as_keyword=True)}")
            try:
                checked[name] = known[name].metadata["check"](value)
            except (TypeError, ValueError, AttributeError) as error:
                metadata = known[name].metadata
                shown = "" if metadata["hidden"] else f"={metadata['shown'](value)}"
                raise ConfigError(f"option {name}{shown}: {error}") from None
        if "bootstrap_servers" not in checked:
            raise ConfigError(NO_SERVERS)
        for short in ("key", "value"):
            codec = checked.pop(short, None)
            if codec is not None:
                name = f"{short}_deserializer" if f"{short}_deserializer" in known else f"{short}_serializer"
                if checked.get(name) is not None:
                    raise ConfigError(f"options {short} and {name} both convert {short}s: leave one of the two out")
                checked[name] = codec
        config = cls(**checked)
        for protocol in sorted(protocols_of(options["bootstrap_servers"]) - {config.security_protocol}):
            raise ConfigError(
                f"option bootstrap_servers has {protocol}:// before an address, and security_protocol is "
                f"{config.security_protocol!r}: set security_protocol={protocol!r}, or leave {protocol}:// out"
            )
        values = {name: getattr(config, name) for name in known}
        yielded: dict[str, Any] = {**yielding(values, frozenset(checked))}
        config = replace(config, **yielded)
        config.check_security(frozenset(checked))
        config.check_together(frozenset(checked))
        return config

    def check_together(self, given: frozenset[str]) -> None:
        """Check options that depend on each other; `given` names those that the user set.

        `pairs` has the options that limit each other.
        """
