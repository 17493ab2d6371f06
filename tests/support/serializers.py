"""Serializers that say where they were used."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa

from kafwire.serialization import Headers


class Tagged:
    """A codec that says where it was used, and has a form for columns."""

    def serialize(self, value: str, topic: str, headers: Headers) -> bytes:
        headers.append(("tag", topic.encode()))
        return f"{topic}/{value}".encode()

    def deserialize(self, data: bytes, topic: str, headers: Headers) -> str:
        return f"{data.decode()} of {topic} with {len(headers)}"

    def serialize_column(self, column: Any, topic: str | None) -> Any:
        return pa.array([None if v is None else f"{topic}/{v}".encode() for v in pa.array(column).to_pylist()])

    def deserialize_column(self, column: Any, topic: str) -> Any:
        return pa.array([None if v is None else f"{v.decode()} of {topic}" for v in pa.array(column).to_pylist()])


async def awaited(data: Any, topic: str, headers: Headers) -> Any:
    await asyncio.sleep(0)
    return data.encode() if isinstance(data, str) else data.decode()
