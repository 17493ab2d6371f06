"""How records of coordinators lie in Kafka's internal topics: `__consumer_offsets`, `__transaction_state` and others.

A key begins with an int16, the type of the record, which names the message of the key (in version 0) and that of the
value. A value begins with an int16, the version of its message. A record without a value is a tombstone.
"""

from typing import ClassVar

from kafwire.protocol.spec import Data

__all__ = ["CoordinatorKey", "CoordinatorValue"]


class CoordinatorKey(Data):
    """The key of a coordinator's record, after the int16 `record_type`."""

    __slots__ = ()

    record_type: ClassVar[int]

    def __init_subclass__(cls, *, record_type: int = -1, **options: str) -> None:
        """Take the type of the record."""
        super().__init_subclass__(**options)
        cls.record_type = record_type


class CoordinatorValue(Data):
    """The value of a coordinator's record, after an int16 version; `record_type` is in the key."""

    __slots__ = ()

    record_type: ClassVar[int]

    def __init_subclass__(cls, *, record_type: int = -1, **options: str) -> None:
        """Take the type of the record."""
        super().__init_subclass__(**options)
        cls.record_type = record_type
