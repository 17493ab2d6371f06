"""Mistakes to plant, so that it shows that the soak finds them: `python -m tests.soak --mistake resend`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self

import kafwire
from kafwire.testing.history import Dress, History, View
from kafwire.types import RecordMetadata, TopicPartition
from tests.soak import hop
from tests.soak.readers import Rows

_EVERY = 200
_OFTEN = 20


class _Planted(ABC):
    """A producer as far as the workloads need one; every so many records it makes its mistake."""

    def __init__(self, **options: Any) -> None:
        self._producer = kafwire.Producer(**options)
        self._count = 0

    def send(self, topic: str, value: bytes, **given: Any) -> Any:
        """Send, in the wrong way where it is time for that."""
        self._count += 1
        return self.mistake(topic, value, given) if self._count % _EVERY == 0 else self.right(topic, value, given)

    def right(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        """Send as it should be."""
        return self._producer.send(topic, value, **given)

    @abstractmethod
    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        """Send as it should not be."""

    def flush(self, timeout: float) -> None:
        """Flush."""
        self._producer.flush(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()


class _Acknowledged:
    """A delivery that is said to be done."""

    def __init__(self, topic: str, partition: int | None) -> None:
        self._meta = RecordMetadata(topic, partition or 0, -1, 0)

    def done(self) -> bool:
        return True

    def exception(self, _timeout: float) -> None:
        return None

    def result(self, _timeout: float) -> RecordMetadata:
        return self._meta


class _Forgotten:
    """A delivery that never gets an outcome."""

    def done(self) -> bool:
        return False


class _Resend(_Planted):
    """Sends a record again, as a new one."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        self.right(topic, value, given)
        return self.right(topic, value, given)


class _Drop(_Planted):
    """Acknowledges a record that it does not send."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        return _Acknowledged(topic, given["partition"])


class _Early(_Planted):
    """Acknowledges what it has only buffered, and is closed before it has sent everything."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options | {"linger_ms": 30_000, "batch_size": 1 << 20, "delivery_timeout_ms": 60_000})

    def right(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        super().right(topic, value, given)
        return _Acknowledged(topic, given["partition"])

    mistake = right

    def flush(self, timeout: float) -> None:
        """Say that all is sent."""

    def __exit__(self, *_: object) -> None:
        try:
            self._producer.close(0.0)
        except kafwire.errors.KafkaTimeoutError:
            return


class _Overtake(_Planted):
    """Keeps a record back and sends it behind the next one."""

    _kept: tuple[str, bytes, dict[str, Any]] | None = None

    def right(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        delivery = super().right(topic, value, given)
        if self._kept is not None and self._kept[0] == topic and self._kept[2]["partition"] == given["partition"]:
            kept, self._kept = self._kept, None
            super().right(*kept)
        return delivery

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        if self._kept is not None:
            return self.right(topic, value, given)
        self._kept = topic, value, given
        return _Acknowledged(topic, given["partition"])

    def flush(self, timeout: float) -> None:
        """Send what was kept back, and flush."""
        if self._kept is not None:
            super().right(*self._kept)
            self._kept = None
        super().flush(timeout)


class _Rekey(_Planted):
    """Sends a record with another key."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        return self.right(topic, value, given | {"key": b"another"})


class _Misplace(_Planted):
    """Sends a record to the first partition, wherever it belongs, and says so."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        return self.right(topic, value, given | {"partition": 0})


class _Denied:
    """A delivery that is said to have failed, certainly."""

    def done(self) -> bool:
        return True

    def exception(self, _timeout: float) -> Exception:
        return kafwire.errors.KafkaTimeoutError("it was not sent, so it says")


class _Deny(_Planted):
    """Sends a record, and says that it certainly is not there."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        self.right(topic, value, given)
        return _Denied()


class _PlantedInTransactions:
    """A transactional producer that makes its mistake every so many records."""

    def __init__(self, **options: Any) -> None:
        self._producer = kafwire.Producer(**options)
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def send(self, topic: str, value: bytes, **given: Any) -> Any:
        self._count += 1
        if self._count % _OFTEN == 0:
            return self.mistake(topic, value, given)
        return self._producer.send(topic, value, **given)

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        """Send as it should be."""
        return self._producer.send(topic, value, **given)


class _Tear(_PlantedInTransactions):
    """Leaves a record of a transaction out, and commits all the same."""

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        return _Forgotten()


class _Outside(_PlantedInTransactions):
    """Sends a record of a transaction outside of it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._other = kafwire.Producer(**{name: options[name] for name in options if "transaction" not in name})

    def mistake(self, topic: str, value: bytes, given: dict[str, Any]) -> Any:
        return self._other.send(topic, value, **given)

    def close(self, *timeout: float) -> None:
        self._other.close()
        self._producer.close(*timeout)


class _Behind(_PlantedInTransactions):
    """Commits offsets in a transaction that lie one behind those that it was given."""

    def send_offsets(self, offsets: Mapping[TopicPartition, int], *given: Any) -> None:
        self._producer.send_offsets({where: offset - 1 for where, offset in offsets.items()}, *given)


PRODUCERS: dict[str, type[_Planted]] = {
    "resend": _Resend,
    "drop": _Drop,
    "early": _Early,
    "overtake": _Overtake,
    "rekey": _Rekey,
    "misplace": _Misplace,
    "deny": _Deny,
}
TRANSACTIONAL: dict[str, type[_PlantedInTransactions]] = {"tear": _Tear, "outside": _Outside, "behind": _Behind}


def _leap(rows: Rows) -> Iterator[Rows]:
    """Pass over a record here and there."""
    where, offsets, values, dresses, next_offset = rows
    kept = [place for place, offset in enumerate(offsets) if offset % _EVERY != _EVERY - 1]
    yield (
        where,
        [offsets[place] for place in kept],
        [values[place] for place in kept],
        [dresses[place] for place in kept],
        next_offset,
    )


def _again(rows: Rows) -> Iterator[Rows]:
    """Give some records twice."""
    yield rows
    if rows[1] and rows[1][0] % _OFTEN == 0:
        yield rows


READERS: dict[str, Callable[[Rows], Iterator[Rows]]] = {"leap": _leap, "again": _again}
MISTAKES = (*PRODUCERS, *TRANSACTIONAL, *READERS, *hop.MISTAKES, "skip", "dirty")


class SkippingHistory(History):
    """A history whose observers leave out a record here and there."""

    def view(self, observer: str, isolation_level: str = "read_uncommitted", *, live: bool = False) -> View:
        """A right view, except for the skipped records of `_SkippingView`."""
        return _SkippingView(self, super().view(observer, isolation_level, live=live)._number)


class _SkippingView(View):
    def add(
        self,
        topic: str,
        partition: int,
        offsets: Iterable[int],
        values: Iterable[bytes | None],
        dresses: Iterable[Dress] | None = None,
    ) -> None:
        assert dresses is not None
        kept = [row for row in zip(offsets, values, dresses, strict=True) if row[0] % _EVERY != _EVERY - 1]
        super().add(topic, partition, [row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept])
