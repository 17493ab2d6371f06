"""Writes kafwire/options.py, the types of keyword options for editors and type checkers, from kafwire.config.

`python -m scripts.option_types` rewrites it; a test fails when that is due.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import Field, fields
from pathlib import Path
from typing import Any

from kafwire.config import (
    CODECS,
    PARTITIONERS,
    ClientConfig,
    ConsumerConfig,
    FetchConfig,
    ProducerConfig,
    ScanConfig,
    ShareConsumerConfig,
)
from kafwire.security_config import MECHANISMS, PROTOCOLS, SecurityConfig

FILE = Path(__file__).parents[1] / "kafwire" / "options.py"
HEAD = '"""Types of keyword options; `python -m scripts.option_types` writes them from `kafwire.config`."""'
KINDS = (ClientConfig, FetchConfig, ProducerConfig, ConsumerConfig, ScanConfig, ShareConsumerConfig)
# An argument of its own.
POSITIONAL = "bootstrap_servers"


def _literal(words: Iterable[str]) -> str:
    return f"Literal[{', '.join(map(repr, words))}]"


# The accepted types, where they differ from those of the field.
TAKEN = {
    "acks": "Literal['all'] | int",
    "partitioner": f"{_literal(PARTITIONERS)} | Callable[..., int] | None",
    "client_id": "str | None",
    "client_rack": "str | None",
    "compression_type": f"{_literal(CODECS)} | None",
    "linger_ms": "float",
    "consumer_timeout_ms": "float | None",
    "metrics_hook": "Callable[[dict[str, Any]], object] | None",
    **dict.fromkeys(("key_serializer", "value_serializer"), "Serializes"),
    **{
        name: "str | Secret | None"
        for name, item in SecurityConfig.__dataclass_fields__.items()
        if "Secret" in item.type
    },
    "ssl_enabled_protocols": "str | Iterable[str]",
    "partition_assignment_strategy": "str | Iterable[str]",
    "sasl_mechanism": f"{_literal(MECHANISMS)} | None",
    "sasl_oauthbearer_token_provider": "Callable[[], Any] | None",
    "sasl_oauthbearer_extensions": "str | Mapping[str, str] | None",
    "security_protocol": _literal(PROTOCOLS),
    **dict.fromkeys(("key_deserializer", "value_deserializer"), "Deserializes"),
}


def text() -> str:
    """The whole file."""
    parts = [
        HEAD,
        "from __future__ import annotations",
        "from collections.abc import Callable, Iterable, Mapping\nfrom typing import Any, Literal, TypedDict",
        "from kafwire.secret import Secret\nfrom kafwire.serialization import Deserializes, Serializes",
        f"__all__ = {sorted(map(_name, KINDS))}",
        *(_options(kind) for kind in KINDS),
    ]
    return "\n\n".join(parts) + "\n"


def _options(kind: type[ClientConfig]) -> str:
    base = kind.__bases__[0]
    inherited = {item.name: _type(item) for item in fields(base)} if issubclass(base, ClientConfig) else {}
    own = [item for item in fields(kind) if inherited.get(item.name) != _type(item) and item.name != POSITIONAL]
    parent = f"{_name(base)}, total=False" if issubclass(base, ClientConfig) else "TypedDict, total=False"
    lines = [f"    {item.name}: {_type(item)}" for item in own]
    body = "\n" + "\n".join(lines) if lines else ""
    return f'\nclass {_name(kind)}({parent}):\n    """Options of `kafwire.config.{kind.__name__}`."""\n{body}'.rstrip()


def _name(kind: type) -> str:
    return kind.__name__.replace("Config", "Options")


def _type(item: Field[Any]) -> str:
    if item.name in TAKEN:
        return TAKEN[item.name]
    allowed = getattr(item.metadata["check"], "allowed", None)
    if allowed is not None:
        return _literal(allowed)
    return str(item.type)


if __name__ == "__main__":
    FILE.write_text(text())
