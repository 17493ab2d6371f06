"""Client quotas: describe and alter those of users, client ids and addresses. See KIP-13, KIP-546, KIP-612."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from typing import Any, Literal

from kafwire import protocol
from kafwire.admin.arguments import text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.integers import real
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["QuotaCalls", "QuotaEntity", "QuotaFilter", "QuotaMatch"]

# Kafka's entity types, by the fields of entities and filters.
ENTITY_TYPES = {"user": "user", "client_id": "client-id", "ip": "ip"}
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


class QuotaMatch(enum.Enum):
    """A value of `QuotaEntity` and `QuotaFilter` that is no name.

    `DEFAULT`: the quotas of all users (client ids, addresses) without quotas of their own. `ANY`, in filters: each
    name, and the default.

    Example:
        >>> from kafwire.admin import QuotaEntity, QuotaMatch
        >>> print(QuotaEntity(user="alice", client_id=QuotaMatch.DEFAULT))
        user 'alice', default client-id
    """

    __module__ = "kafwire.admin"
    DEFAULT = "default"
    ANY = "any"


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """The clients that a quota is for: a user, a client id, both together, or an address.

    Args:
        user: the user's name, without "User:"; `QuotaMatch.DEFAULT`: users without quotas of their own; None: the quota
            does not depend on the user.
        client_id: the client id; otherwise as `user`.
        ip: the address, or a host name that the brokers resolve; otherwise as `user`. It excludes the other two.

    Example:
        >>> from kafwire.admin import QuotaEntity
        >>> print(QuotaEntity(user="alice"))
        user 'alice'
    """

    __module__ = "kafwire.admin"
    user: str | Literal[QuotaMatch.DEFAULT] | None = None
    client_id: str | Literal[QuotaMatch.DEFAULT] | None = None
    ip: str | Literal[QuotaMatch.DEFAULT] | None = None

    def __str__(self) -> str:
        return _line(self)


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """A filter of entities. An entity matches if it has all that the filter names.

    Args:
        user: the user's name; `QuotaMatch.DEFAULT`: the default of users; `QuotaMatch.ANY`: any name or the default;
            None: entities with and without a user match.
        client_id: as `user`.
        ip: as `user`. It excludes the other two.
        strict: an entity with more than the filter names does not match.

    Example:
        >>> from kafwire.admin import QuotaFilter, QuotaMatch
        >>> QuotaFilter(user=QuotaMatch.ANY, strict=True).strict
        True
    """

    __module__ = "kafwire.admin"
    user: str | QuotaMatch | None = None
    client_id: str | QuotaMatch | None = None
    ip: str | QuotaMatch | None = None
    strict: bool = False


class QuotaCalls(AdminRequests):
    """The calls about client quotas. Each broker executes them, or forwards them to the controller."""

    def describe_client_quotas(
        self,
        filter: QuotaFilter | None,  # noqa: A002
        *,
        timeout: float | None,
    ) -> Work[dict[QuotaEntity, dict[str, float]]]:
        """Describe the quotas of the entities that match a filter; None: all."""
        if filter is not None and not isinstance(filter, QuotaFilter):
            raise ConfigError(f"filter={filter!r}: write QuotaFilter(...), or None for all quotas")
        wanted = filter or QuotaFilter()
        request: Any = protocol.DescribeClientQuotasRequest
        message = request(
            components=[
                request.ComponentData(entity_type=kind, match_type=_match_type(name), match=_text(name))
                for kind, name in _named(wanted)
            ],
            strict=bool(wanted.strict),
        )

        async def send(broker: int) -> dict[QuotaEntity, dict[str, float]]:
            response = await route.call(broker, message)
            error = error_of(response, "describing client quotas", "DescribeClientQuotas")
            if error is not None:
                raise error
            return {
                _entity(entry.entity): {each.key: each.value for each in entry.values}
                for entry in response.entries or ()
            }

        route = self._any()
        return self._single(route, send, "describing client quotas", timeout_ms_of(timeout))

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool,
        timeout: float | None,
    ) -> Work[Outcomes[QuotaEntity, None]]:
        """Set and remove quotas, or check whether they could be set."""
        changes = _changes(quotas)
        request: Any = protocol.AlterClientQuotasRequest

        async def send(broker: int, asked: list[QuotaEntity]) -> Mapping[QuotaEntity, KafkaError | None]:
            entries = [
                request.EntryData(
                    entity=[
                        request.EntityData(entity_type=kind, entity_name=_text(name)) for kind, name in _named(entity)
                    ],
                    ops=[
                        request.OpData(key=key, value=value or 0.0, remove=value is None)
                        for key, value in changes[entity].items()
                    ],
                )
                for entity in asked
            ]
            response = await route.call(broker, request(entries=entries, validate_only=bool(validate_only)))
            found = [(_entity(each.entity), each) for each in response.entries]
            return {
                entity: error_of(each, f"altering quotas of {entity}", "AlterClientQuotas") for entity, each in found
            }

        route = self._any()
        return self._work(changes, route, send, "altering client quotas", timeout_ms_of(timeout))


def _named(which: QuotaEntity | QuotaFilter) -> list[tuple[str, str | QuotaMatch]]:
    """Return Kafka's types and the names of an entity or a filter, without the types that it leaves open."""
    found: list[tuple[str, str | QuotaMatch]] = []
    for field, kind in ENTITY_TYPES.items():
        name = getattr(which, field)
        if name is None:
            continue
        if not isinstance(name, QuotaMatch):
            text_of(f"{field} of a quota", name)
        elif name is QuotaMatch.ANY and isinstance(which, QuotaEntity):
            raise ConfigError(f"{field}=QuotaMatch.ANY is for filters: an entity has a name, or QuotaMatch.DEFAULT")
        found.append((kind, name))
    if len(found) > 1 and which.ip is not None:
        raise ConfigError("ip excludes user and client_id: the quota of an address has neither")
    return found


def _text(name: str | QuotaMatch) -> str | None:
    return None if isinstance(name, QuotaMatch) else name


def _match_type(name: str | QuotaMatch) -> int:
    if name is QuotaMatch.DEFAULT:
        return DEFAULT
    return SPECIFIED if name is QuotaMatch.ANY else EXACT


def _changes(quotas: Any) -> dict[QuotaEntity, dict[str, float | None]]:
    """Check the changes of each entity."""
    example = 'alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1_000_000}})'
    if not isinstance(quotas, Mapping):
        raise ConfigError(f"quotas={quotas!r}: write a dict: {example}")
    found: dict[QuotaEntity, dict[str, float | None]] = {}
    for entity, changes in quotas.items():
        if not isinstance(entity, QuotaEntity):
            raise ConfigError(f"quotas: {entity!r} is no QuotaEntity: {example}")
        if not _named(entity):
            raise ConfigError("quotas: an entity names a user, a client id or an address; QuotaEntity() names none")
        if not isinstance(changes, Mapping) or not changes:
            raise ConfigError(f"quotas of {entity}: {changes!r}: write a dict with one quota at least: {example}")
        found[entity] = {text_of("quota", key): _value(entity, key, value) for key, value in changes.items()}
    return found


def _value(entity: QuotaEntity, key: str, value: Any) -> float | None:
    if value is None:
        return None
    number = real(value)
    if number is None or not math.isfinite(number):
        raise ConfigError(f"{key} of {entity}: {value!r}: a quota is a number; None removes it")
    return number


def _entity(parts: Any) -> QuotaEntity:
    """Return the entity of a response."""
    fields = {kind: field for field, kind in ENTITY_TYPES.items()}
    unknown = next((part.entity_type for part in parts if part.entity_type not in fields), None)
    if unknown is not None:
        raise ProtocolError(f"the response has a quota of the unknown entity type {unknown!r}")
    return QuotaEntity(
        **{
            fields[part.entity_type]: QuotaMatch.DEFAULT if part.entity_name is None else part.entity_name
            for part in parts
        }
    )


def _line(entity: QuotaEntity) -> str:
    """Write an entity as a line."""
    named = ((kind, getattr(entity, field)) for field, kind in ENTITY_TYPES.items())
    parts = [
        f"default {kind}" if isinstance(name, QuotaMatch) else f"{kind} {name!r}"
        for kind, name in named
        if name is not None
    ]
    return ", ".join(parts)
