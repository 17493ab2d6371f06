"""AlterClientQuotas (49): set and remove quotas of users, clients and addresses. See KIP-546, KIP-612 (addresses)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int16, int32


class AlterClientQuotasResponse(Response, key=49, versions="0-1", flexible="1+"):
    """The response to `AlterClientQuotasRequest`, one result for each entity."""

    class EntityData(Struct):
        entity_type: str = field("0+")
        entity_name: str | None = field("0+", nullable="0+")

    class EntryData(Struct):
        error_code: int16 = field("0+")
        error_message: str | None = field("0+", nullable="0+")
        entity: list["AlterClientQuotasResponse.EntityData"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    entries: list[EntryData] = field("0+")


class AlterClientQuotasRequest(Request[AlterClientQuotasResponse], key=49, versions="0-1", flexible="1+"):
    """Changes quotas, by keys such as "producer_byte_rate"; with `remove`, the `value` of an operation is ignored.

    Entities are as in DescribeClientQuotas: `entity_name=None` is the default of its type.
    """

    class EntityData(Struct):
        entity_type: str = field("0+")
        entity_name: str | None = field("0+", nullable="0+")

    class OpData(Struct):
        key: str = field("0+")
        value: float = field("0+")
        remove: bool = field("0+")

    class EntryData(Struct):
        entity: list["AlterClientQuotasRequest.EntityData"] = field("0+")
        ops: list["AlterClientQuotasRequest.OpData"] = field("0+")

    entries: list[EntryData] = field("0+")
    validate_only: bool = field("0+")
