"""DescribeClientQuotas (48): the quotas of users, clients and addresses. See KIP-546, KIP-612 (addresses)."""

from kafwire.protocol.spec import Request, Response, Struct, field, int8, int16, int32


class DescribeClientQuotasResponse(Response, key=48, versions="0-1", flexible="1+"):
    """The response to `DescribeClientQuotasRequest`; `entries` is None after an error.

    An entity is a user, a client id, both, or an address; `entity_name=None` is the default of its type.
    """

    class EntityData(Struct):
        entity_type: str = field("0+")
        entity_name: str | None = field("0+", nullable="0+")

    class ValueData(Struct):
        key: str = field("0+")
        value: float = field("0+")

    class EntryData(Struct):
        entity: list["DescribeClientQuotasResponse.EntityData"] = field("0+")
        values: list["DescribeClientQuotasResponse.ValueData"] = field("0+")

    throttle_time_ms: int32 = field("0+")
    error_code: int16 = field("0+")
    error_message: str | None = field("0+", nullable="0+")
    entries: list[EntryData] | None = field("0+", nullable="0+")


class DescribeClientQuotasRequest(Request[DescribeClientQuotasResponse], key=48, versions="0-1", flexible="1+"):
    """Asks for the entities that have all `components`; with `strict`, for those that have no others.

    An `entity_type` is "user", "client-id" or "ip". Match type 0 compares the name with `match`, 1 finds the default, 2
    any entity with a name.
    """

    class ComponentData(Struct):
        entity_type: str = field("0+")
        match_type: int8 = field("0+")
        match: str | None = field("0+", nullable="0+")

    components: list[ComponentData] = field("0+")
    strict: bool = field("0+")
