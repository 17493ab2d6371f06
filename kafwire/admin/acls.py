"""ACLs: create, describe and delete bindings. See KIP-11, KIP-140, KIP-290."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from kafwire import protocol
from kafwire.admin.arguments import text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.cluster.broker_connection import SOFTWARE_VERSION
from kafwire.errors import AdminError, ConfigError, KafkaError, ProtocolError
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["AclBinding", "AclCalls", "AclFilter"]

RESOURCE_TYPES = {"Topic": 2, "Group": 3, "Cluster": 4, "TransactionalId": 5, "DelegationToken": 6, "User": 7}
PATTERN_TYPES = {"Literal": 3, "Prefixed": 4}
FILTER_PATTERN_TYPES = {"Match": 2, **PATTERN_TYPES}
OPERATIONS = {
    "All": 2,
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    "Describe": 8,
    "ClusterAction": 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
    "CreateTokens": 13,
    "DescribeTokens": 14,
    "TwoPhaseCommit": 15,
}
PERMISSIONS = {"Deny": 2, "Allow": 3}
ANY = 1  # in filters
UNKNOWN = "Unknown"  # a value of a newer Kafka, in results
CLUSTER_NAME = "kafka-cluster"


@dataclass(frozen=True, slots=True)
class AclBinding:
    """An access rule: a principal may do, or may not do, an operation on the resources that a pattern names.

    The texts are those of `AuthorizationError`. Kafka's other spelling (`TRANSACTIONAL_ID`) is accepted, too.

    Args:
        resource_type: "Topic", "Group", "Cluster", "TransactionalId", "DelegationToken" or "User".
        name: the resource, or the beginning of its name; "*": all resources of the type. The name of the cluster is
            "kafka-cluster", that of a user "User:alice".
        principal: the user, "User:alice"; "User:*": all users.
        operation: "All", "Read", "Write", "Create", "Delete", "Alter", "Describe", "ClusterAction", "DescribeConfigs",
            "AlterConfigs", "IdempotentWrite", "CreateTokens", "DescribeTokens" or "TwoPhaseCommit".
        permission: "Allow" or "Deny". A rule that denies wins over all that allow.
        host: the address of the clients; "*": any.
        pattern_type: "Literal", or "Prefixed" if `name` is the beginning of names.

    Raises:
        ConfigError: a value is not a text, or is none of these.

    Example:
        >>> from kafwire.admin import AclBinding
        >>> rule = AclBinding("Topic", "flights-", "User:alice", "Read", pattern_type="Prefixed")
        >>> print(rule)
        Allow User:alice Read on Topic 'flights-' (Prefixed)
    """

    __module__ = "kafwire.admin"
    resource_type: str
    name: str
    principal: str
    operation: str
    permission: str = "Allow"
    host: str = "*"
    pattern_type: str = "Literal"

    def __post_init__(self) -> None:
        """Check the texts, and write them as `AuthorizationError` does."""
        for field in ("name", "principal", "host"):
            if not isinstance(getattr(self, field), str):  # None would match everything in a filter
                raise ConfigError(f"{field} of an ACL: {getattr(self, field)!r} is not a text")
        for field, known in _BINDING.items():
            object.__setattr__(self, field, _spelled(field, getattr(self, field), [*known, UNKNOWN]))

    def to_filter(self) -> AclFilter:
        """Return the filter that matches this binding only.

        Returns:
            The filter, for `Admin.delete_acls`.
        """
        return AclFilter(
            self.resource_type,
            self.name,
            self.principal,
            self.operation,
            self.permission,
            self.host,
            self.pattern_type,
        )

    def __str__(self) -> str:
        return _line(self)


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of bindings. A field that is None matches everything.

    Args:
        resource_type: as in `AclBinding`.
        name: the name in the bindings; with the pattern type "Match", the name of a resource.
        principal: the user, "User:alice". Bindings of "User:*" do not match it.
        operation: as in `AclBinding`; "All" matches bindings of the operation All.
        permission: "Allow" or "Deny".
        host: the address in the bindings. Bindings of "*" do not match an address.
        pattern_type: "Literal" or "Prefixed"; "Match": all bindings whose pattern matches `name`, literal ones, "*" and
            prefixes.

    Raises:
        ConfigError: a text is none of Kafka's, or is empty.

    Example:
        >>> from kafwire.admin import AclFilter
        >>> print(AclFilter("Topic", "flights", pattern_type="Match", permission="Deny"))
        Deny any principal any operation on Topic 'flights' (Match)
    """

    __module__ = "kafwire.admin"
    resource_type: str | None = None
    name: str | None = None
    principal: str | None = None
    operation: str | None = None
    permission: str | None = None
    host: str | None = None
    pattern_type: str | None = None

    def __post_init__(self) -> None:
        """Check the texts, and write them as `AuthorizationError` does."""
        for field in ("name", "principal", "host"):
            if getattr(self, field) is not None:
                text_of(f"{field} of an ACL filter", getattr(self, field))
        for field, known in _FILTER.items():
            value = getattr(self, field)
            if value is not None:
                object.__setattr__(self, field, _spelled(field, value, [*known]))

    def __str__(self) -> str:
        return _line(self)


_BINDING: Mapping[str, Mapping[str, int]] = {
    "resource_type": RESOURCE_TYPES,
    "operation": OPERATIONS,
    "permission": PERMISSIONS,
    "pattern_type": PATTERN_TYPES,
}
_FILTER = {**_BINDING, "pattern_type": FILTER_PATTERN_TYPES}


Rule = TypeVar("Rule", AclBinding, AclFilter)


class AclCalls(AdminRequests):
    """The calls about ACLs. Each broker executes them, or forwards them to the controller."""

    def create_acls(self, bindings: Iterable[AclBinding], *, timeout: float | None) -> Work[Outcomes[AclBinding, None]]:
        """Create bindings. Results have no names, but are in the order of the request."""
        wanted = [_complete(each) for each in _listed("bindings", bindings, AclBinding)]
        request: Any = protocol.CreateAclsRequest

        async def send(broker: int, asked: list[AclBinding]) -> Mapping[AclBinding, KafkaError | None]:
            old = await self._too_old(request, asked)
            sent = [each for each in asked if each not in old]
            if not sent:
                return old
            response = await route.call(broker, request(creations=[_creation(each) for each in sent]))
            return old | {
                each: error_of(result, f"creating ACL {each}", "CreateAcls")
                for each, result in zip(sent, response.results, strict=False)
            }

        route = self._any()
        return self._work(wanted, route, send, "creating ACLs", timeout_ms_of(timeout))

    def describe_acls(
        self,
        filter: AclFilter | None,  # noqa: A002
        *,
        timeout: float | None,
    ) -> Work[list[AclBinding]]:
        """List the bindings that match a filter; None: all."""
        if filter is not None and not isinstance(filter, AclFilter):
            raise ConfigError(f"filter={filter!r}: write AclFilter(...), or None for all bindings")
        wanted = filter or AclFilter()
        request: Any = protocol.DescribeAclsRequest

        async def send(broker: int) -> list[AclBinding]:
            old = await self._too_old(request, [wanted])
            if old:
                raise old[wanted]
            response = await route.call(broker, request(**_fields(wanted)))
            error = error_of(response, "describing ACLs", "DescribeAcls")
            if error is not None:
                raise error
            return [_binding(resource, acl) for resource in response.resources for acl in resource.acls]

        route = self._any()
        return self._single(route, send, "describing ACLs", timeout_ms_of(timeout))

    def delete_acls(
        self, filters: Iterable[AclFilter], *, timeout: float | None
    ) -> Work[Outcomes[AclFilter, list[AclBinding]]]:
        """Delete the bindings that match filters. Results are in the order of the request."""
        wanted = _listed("filters", filters, AclFilter)
        request: Any = protocol.DeleteAclsRequest

        async def send(broker: int, asked: list[AclFilter]) -> Mapping[AclFilter, list[AclBinding] | KafkaError]:
            old = await self._too_old(request, asked)
            sent = [each for each in asked if each not in old]
            if not sent:
                return old
            message = request(filters=[request.DeleteAclsFilter(**_fields(each)) for each in sent])
            response = await route.call(broker, message)
            return old | {
                each: error_of(result, f"deleting ACLs: {each}", "DeleteAcls") or _deleted(result)
                for each, result in zip(sent, response.filter_results, strict=False)
            }

        route = self._any()
        return self._work(wanted, route, send, "deleting ACLs", timeout_ms_of(timeout))

    async def _too_old(self, request: Any, asked: Iterable[Rule]) -> dict[Rule, Any]:
        """Return the errors of rules about users if brokers do not know this type; they would call it unknown."""
        users = [each for each in asked if each.resource_type == "User"]
        if not users:
            return {}
        question = protocol.ApiVersionsRequest(client_software_name="kafwire", client_software_version=SOFTWARE_VERSION)
        response = await self._cluster.call_once(question)
        newest = max((each.max_version for each in response.api_keys if each.api_key == request.api_key), default=-1)
        if newest >= request.USERS:
            return {}
        name = request.__name__.removesuffix("Request")
        text = f"ACLs of users need Kafka 3.3 or newer: the broker has {name} up to version {newest} only"
        return dict.fromkeys(users, ProtocolError(text))


def _spelled(what: str, value: Any, known: list[str]) -> str:
    """Return the known text that equals `value` apart from underscores and capitals."""
    plain = value.replace("_", "").lower() if isinstance(value, str) else None
    for each in known:
        if each.lower() == plain:
            return each
    raise ConfigError(f"{what}={value!r}: it must be one of {', '.join(each for each in known if each != UNKNOWN)}")


def _line(rule: AclBinding | AclFilter) -> str:
    """Write a binding or a filter as a line."""
    name = "any name" if rule.name is None else repr(rule.name)
    parts = [
        rule.permission or "Allow or Deny",
        rule.principal or "any principal",
        rule.operation or "any operation",
        f"on {rule.resource_type or 'any resource'} {name}",
    ]
    if rule.pattern_type not in (None, "Literal"):
        parts.append(f"({rule.pattern_type})")
    if rule.host not in (None, "*"):
        parts.append(f"from {rule.host}")
    return " ".join(parts)


def _listed(what: str, values: Any, kind: type[Any]) -> list[Any]:
    """Return a list of bindings, or of filters."""
    if isinstance(values, kind) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of {kind.__name__}s")
    found = list(values)
    for each in found:
        if not isinstance(each, kind):
            raise ConfigError(f"{what}: {each!r} is no {kind.__name__}: write {kind.__name__}(...)")
    return found


def _complete(binding: AclBinding) -> AclBinding:
    """Check a binding that is to be created."""
    text_of("name of an ACL's resource", binding.name)
    text_of("host of an ACL", binding.host)
    if ":" not in binding.principal:
        raise ConfigError(f"principal={binding.principal!r}: write its type, too: 'User:{binding.principal}'")
    if UNKNOWN in (binding.resource_type, binding.operation, binding.permission, binding.pattern_type):
        raise ConfigError(f"{binding}: a rule with the value {UNKNOWN!r} cannot be created")
    if binding.resource_type == "Cluster" and binding.name != CLUSTER_NAME:
        raise ConfigError(f"name={binding.name!r}: the only name of the cluster is {CLUSTER_NAME!r}")
    return binding


def _creation(binding: AclBinding) -> Any:
    request: Any = protocol.CreateAclsRequest
    return request.AclCreation(
        resource_type=RESOURCE_TYPES[binding.resource_type],
        resource_name=binding.name,
        resource_pattern_type=PATTERN_TYPES[binding.pattern_type],
        principal=binding.principal,
        host=binding.host,
        operation=OPERATIONS[binding.operation],
        permission_type=PERMISSIONS[binding.permission],
    )


def _fields(wanted: AclFilter) -> dict[str, Any]:
    """Return a filter as the fields of DescribeAcls, and of a filter in DeleteAcls."""
    return {
        "resource_type_filter": RESOURCE_TYPES.get(wanted.resource_type or "", ANY),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": FILTER_PATTERN_TYPES.get(wanted.pattern_type or "", ANY),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": OPERATIONS.get(wanted.operation or "", ANY),
        "permission_type": PERMISSIONS.get(wanted.permission or "", ANY),
    }


def _name(known: Mapping[str, int], code: int) -> str:
    return next((name for name, number in known.items() if number == code), UNKNOWN)


def _binding(resource: Any, acl: Any) -> AclBinding:
    """Return a binding of a response; `resource` has its pattern, `acl` the rest."""
    return AclBinding(
        _name(RESOURCE_TYPES, resource.resource_type),
        resource.resource_name,
        acl.principal,
        _name(OPERATIONS, acl.operation),
        _name(PERMISSIONS, acl.permission_type),
        acl.host,
        _name(PATTERN_TYPES, resource.pattern_type),
    )


def _deleted(result: Any) -> list[AclBinding] | KafkaError:
    """Return the bindings that a filter deleted, or the errors of matches that were not deleted."""
    deleted: dict[AclBinding, None] = {}
    errors: dict[AclBinding, KafkaError] = {}
    for match in result.matching_acls:
        binding = _binding(match, match)
        error = error_of(match, f"deleting ACL {binding}", "DeleteAcls")
        if error is None:
            deleted[binding] = None
        else:
            errors[binding] = error
    return AdminError(deleted, errors) if errors else list(deleted)
