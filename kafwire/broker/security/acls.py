"""Access control lists, with the rules of Kafka's StandardAuthorizer. Pure. See KIP-11, KIP-290.

A binding allows or denies a principal an operation on the resources that match a name pattern. A matching binding that
denies wins over all that allow. An operation that no binding allows is denied too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Protocol, TypeVar

from kafwire.broker.storage.journal import JournalWriter

CLUSTER_NAME = "kafka-cluster"
ANY, MATCH = 1, 2  # in filters: all patterns; every pattern that matches a name
_WILDCARD = "*"
_EVERYBODY = "User:*"


class ResourceType(IntEnum):
    """The types of protected resources."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """The kind of a binding's name pattern; a literal `*` matches all names."""

    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """The operations on resources."""

    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """The effect of a binding."""

    DENY = 2
    ALLOW = 3


_O = Operation
# The operations that allow another one too.
_IMPLIED = {
    _O.DESCRIBE: {_O.DESCRIBE, _O.READ, _O.WRITE, _O.DELETE, _O.ALTER},
    _O.DESCRIBE_CONFIGS: {_O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS},
}
# The operations on each type, for the bit fields of responses (KIP-430).
SUPPORTED = {
    ResourceType.TOPIC: (
        _O.READ, _O.WRITE, _O.CREATE, _O.DESCRIBE, _O.DELETE, _O.ALTER, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (_O.READ, _O.DESCRIBE, _O.DELETE, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        _O.CREATE, _O.CLUSTER_ACTION, _O.DESCRIBE_CONFIGS, _O.ALTER_CONFIGS, _O.IDEMPOTENT_WRITE, _O.ALTER, _O.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (_O.DESCRIBE, _O.WRITE, _O.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (_O.DESCRIBE,),
    ResourceType.USER: (_O.CREATE_TOKENS, _O.DESCRIBE_TOKENS),
}  # fmt: skip

_E = TypeVar("_E", bound=IntEnum)


def _member(kind: type[_E], value: _E | str | int) -> _E:
    """Return a member by its number or by Kafka's name, such as `DescribeConfigs` or `DESCRIBE_CONFIGS`."""
    if isinstance(value, str):
        for each in kind:
            if each.name.replace("_", "") == value.replace("_", "").upper():
                return each
        raise ValueError(f"{kind.__name__} is one of {', '.join(each.name for each in kind)}, not {value!r}")
    return kind(value)


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One binding. Enum arguments may be Kafka's names or numbers.

    Example:
        >>> Acl("User:alice", "Read", "Topic", "flights-", pattern="Prefixed").operation.name
        'READ'
    """

    principal: str
    operation: Operation
    resource_type: ResourceType
    name: str = CLUSTER_NAME
    pattern: PatternType = PatternType.LITERAL
    permission: Permission = Permission.ALLOW
    host: str = _WILDCARD

    def __init__(
        self,
        principal: str,
        operation: Operation | str | int,
        resource_type: ResourceType | str | int,
        name: str = CLUSTER_NAME,
        *,
        pattern: PatternType | str | int = PatternType.LITERAL,
        permission: Permission | str | int = Permission.ALLOW,
        host: str = _WILDCARD,
    ) -> None:
        for key, value in (
            ("principal", principal),
            ("operation", _member(Operation, operation)),
            ("resource_type", _member(ResourceType, resource_type)),
            ("name", name),
            ("pattern", _member(PatternType, pattern)),
            ("permission", _member(Permission, permission)),
            ("host", host),
        ):
            object.__setattr__(self, key, value)

    def as_key(self) -> list[str | int]:
        """Return all fields as JSON types; see `stored_parts.py`."""
        numbers = [int(self.operation), int(self.resource_type), int(self.pattern), int(self.permission)]
        return [self.principal, self.name, self.host, *numbers]

    def is_for(self, principal: str, host: str) -> bool:
        """True if the binding is for this principal from this host."""
        return self.principal in (principal, _EVERYBODY) and self.host in (host, _WILDCARD)

    def covers(self, resource_type: int, name: str) -> bool:
        """True if the binding's pattern matches a resource."""
        if self.resource_type != resource_type:
            return False
        if self.pattern is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, _WILDCARD)

    def says(self, operation: Operation) -> bool:
        """True if the binding is for an operation; only allowed operations imply others."""
        if self.operation in (_O.ALL, operation):
            return True
        return self.permission is Permission.ALLOW and self.operation in _IMPLIED.get(operation, ())


@dataclass(frozen=True, slots=True)
class AclFilter:
    """The filter of DescribeAcls and DeleteAcls; None and ANY match all."""

    resource_type: int = ANY
    name: str | None = None
    pattern: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission: int = ANY

    def passes(self, acl: Acl) -> bool:
        """True if the filter matches this binding."""
        return (
            self.resource_type in (ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (ANY, acl.operation)
            and self.permission in (ANY, acl.permission)
            and self._names(acl)
        )

    def _names(self, acl: Acl) -> bool:
        if self.pattern not in (ANY, MATCH, acl.pattern):
            return False
        if self.name is None:
            return True
        if self.pattern != MATCH:
            return self.name == acl.name
        return acl.covers(acl.resource_type, self.name)


class AuthorizedCluster(Protocol):
    """The cluster that an authorizer protects: its options, and the journal of its state."""

    journal: JournalWriter

    def config(self, name: str) -> str:
        """Return a broker option."""
        ...

    def config_is(self, name: str) -> bool:
        """Return a boolean broker option."""
        ...


class Authorizer:
    """All bindings of a cluster: `state.part(Authorizer)`. While it is not enabled, everything is allowed.

    It obeys `super.users` and `allow.everyone.if.no.acl.found`.
    """

    def __init__(self, state: AuthorizedCluster) -> None:
        self._state = state
        self._acls: dict[Acl, None] = {}
        self.is_enabled = False

    def enable(self, acls: Iterable[Acl] = ()) -> None:
        """Enforce ACLs from now on, and add these."""
        self.is_enabled = True
        self.add(acls)

    # --- bindings

    def add(self, acls: Iterable[Acl]) -> None:
        """Add bindings; existing ones stay."""
        for acl in acls:
            if acl not in self._acls:
                self._acls[acl] = None
                self._state.journal.write("acl", acl.as_key(), True)

    def all(self) -> list[Acl]:
        """Return all bindings of the cluster."""
        return list(self._acls)

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Return the bindings that match a filter."""
        return [acl for acl in self._acls if wanted.passes(acl)]

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove bindings."""
        for acl in acls:
            if acl in self._acls:
                del self._acls[acl]
                self._state.journal.write("acl", acl.as_key(), None)

    # --- permissions

    def allows(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """True if a principal at `host` may do an operation on a resource."""
        if not self.is_enabled or self._is_superuser(principal):
            return True
        relevant = [acl for acl in self._acls if acl.covers(resource_type, name)]
        if not relevant:
            return self._state.config_is("allow.everyone.if.no.acl.found")
        found = {acl.permission for acl in relevant if acl.is_for(principal, host) and acl.says(operation)}
        return Permission.DENY not in found and Permission.ALLOW in found

    def allows_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """True if a principal may do an operation on any resource of a type (KIP-679)."""
        if self.allows(principal, host, operation, resource_type, "hardcode"):
            return True
        mine = [
            acl
            for acl in self._acls
            if acl.resource_type == resource_type
            and acl.is_for(principal, host)
            and acl.operation in (Operation.ALL, operation)
        ]
        denied = [acl for acl in mine if acl.permission is Permission.DENY]
        if any(acl.pattern is PatternType.LITERAL and acl.name == _WILDCARD for acl in denied):
            return False
        return any(
            acl.permission is Permission.ALLOW and not any(_dominates(other, acl) for other in denied) for acl in mine
        )

    def operations(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the bit field of a principal's operations on a resource (KIP-430)."""
        allowed = [each for each in SUPPORTED[resource_type] if self.allows(principal, host, each, resource_type, name)]
        return sum(1 << each for each in allowed)

    def _is_superuser(self, principal: str) -> bool:
        return principal in (each.strip() for each in self._state.config("super.users").split(";"))


def _dominates(denied: Acl, allowed: Acl) -> bool:
    """True if a denial removes all that a binding allows."""
    if allowed.pattern is PatternType.LITERAL and allowed.name == _WILDCARD:
        return False
    if denied.pattern is PatternType.PREFIXED:
        return allowed.name.startswith(denied.name)
    return allowed.pattern is PatternType.LITERAL and allowed.name == denied.name
