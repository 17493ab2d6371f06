"""The layout of coordinators' records in Kafka's internal topics: `__consumer_offsets`, `__transaction_state`, others.

A key begins with an int16, the type of the record, which determines the message of the key (in version 0) and that of
the value. A value begins with an int16, the version of its message. A record without a value is a tombstone.
"""

from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kafwire.errors import ProtocolError
from kafwire.protocol.spec import Data

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["TYPE_BYTES", "CoordinatorKey", "CoordinatorValue", "decode_key"]

TYPE_BYTES = 2


class _Coordinator(Data):
    """A part of a coordinator's record; `record_type` is the type in the key."""

    __slots__ = ()

    record_type: ClassVar[int] = -1

    def __init_subclass__(cls, *, record_type: int = -1, **options: Any) -> None:
        """Store the record type of a declaration."""
        super().__init_subclass__(**options)
        cls.record_type = record_type


class CoordinatorKey(_Coordinator):
    """The key of a coordinator's record, after the int16 `record_type`."""

    __slots__ = ()


class CoordinatorValue(_Coordinator):
    """The value of a coordinator's record, after an int16 version; `record_type` is in the key."""

    __slots__ = ()


K = TypeVar("K", bound=CoordinatorKey)


def decode_key(cls: type[K], data: "BytesLike") -> K:
    """Decode the key of a record.

    Raises:
        ProtocolError: the key is of another type, or is not exactly one such key.
    """
    view = memoryview(data).cast("B")
    found = int.from_bytes(view[:TYPE_BYTES], "big", signed=True)
    if len(view) < TYPE_BYTES or found != cls.record_type:
        raise ProtocolError(
            f"the key has type {found}, but {cls.__name__} is type {cls.record_type}", api=cls.__name__, offset=0
        )
    return cls.decode(view[TYPE_BYTES:], 0)
