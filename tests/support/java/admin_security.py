"""Calls about ACLs, quotas and SCRAM users, by Java's `Admin` and by kafwire's."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import kafwire
from kafwire.admin import (
    AclBinding,
    AclFilter,
    QuotaEntity,
    QuotaFilter,
    QuotaMatch,
    ScramCredential,
    ScramDeletion,
    ScramUpsertion,
)
from kafwire.admin.quotas import ENTITY_TYPES
from tests.support.deadlines import until
from tests.support.java.admin_comparison import Comparison, OnError, Scene, all_but

SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def by_place(keys: Sequence[Any], call: Callable[[OnError], Mapping[Any, Any] | None], on_error: OnError) -> Any:
    """The outcome of a call, with the number of each key as JavaAdmin.java has it; None: the call has no results."""
    errors: dict[Any, Any] = {}
    found = call(errors.__setitem__)
    for number, key in enumerate(keys):
        if key in errors:
            on_error(number, errors[key])
    return {number: None if found is None else found[key] for number, key in enumerate(keys) if key not in errors}


# --- ACLs


def principal(scene: Scene) -> str:
    return f"User:{scene.name}"


def bindings(scene: Scene) -> list[AclBinding]:
    return [
        AclBinding("Topic", scene.name, principal(scene), "Read"),
        AclBinding("Topic", scene.name[:-2], principal(scene), "Write", "Deny", "10.0.0.1", "Prefixed"),
        AclBinding("TransactionalId", "*", principal(scene), "Describe"),
        AclBinding("User", principal(scene), principal(scene), "CreateTokens"),
    ]


def filters(scene: Scene) -> list[AclFilter]:
    """Filters of denials, of reads, and of nothing."""
    return [
        AclFilter(principal=principal(scene), permission="Deny"),
        AclFilter(principal=principal(scene), operation="Read"),
        AclFilter("Group", principal=principal(scene)),
    ]


def own_acls(admin: kafwire.Admin, scene: Scene, count: int) -> Any:
    """The ACLs of the scene, when there are so many of them."""
    own = AclFilter(principal=principal(scene))
    until(lambda: len(admin.describe_acls(own)) == count, "the ACLs")
    return [[str(part).replace(scene.name, "*") for part in acl] for acl in acls(admin.describe_acls(own))]


def with_acls(scene: Scene) -> None:
    with kafwire.Admin(scene.bootstrap) as admin:
        admin.create_acls(bindings(scene))
        own_acls(admin, scene, 4)


def java_name(text: str | None) -> str:
    return "ANY" if text is None else re.sub("(?<=[a-z])(?=[A-Z])", "_", text).upper()


def in_java(rule: AclBinding | AclFilter) -> list[str | None]:
    """A binding or a filter as JavaAdmin.java takes it."""
    return [
        java_name(rule.resource_type),
        rule.name,
        java_name(rule.pattern_type),
        rule.principal,
        rule.host,
        java_name(rule.operation),
        java_name(rule.permission),
    ]


def acls(found: list[AclBinding]) -> list[list[str | None]]:
    return sorted(map(in_java, found), key=str)


def acls_of_java(found: list[dict[str, Any]]) -> list[list[str]]:
    pairs = [(each["pattern"], each["entry"]) for each in found]
    return sorted(
        (
            [
                *(pattern["resourceType"], pattern["name"], pattern["patternType"]),
                *(entry["principal"], entry["host"], entry["operation"], entry["permissionType"]),
            ]
            for pattern, entry in pairs
        ),
        key=str,
    )


def acl_lists(aspect: str, wanted: Callable[[Scene], AclFilter]) -> Comparison:
    return Comparison(
        "describeAcls",
        lambda scene: {"filter": in_java(wanted(scene))},
        lambda admin, scene, _: {"all": admin.describe_acls(wanted(scene))},
        ours=acls,
        theirs=acls_of_java,
        aspect=aspect,
        prepare=with_acls,
        on="authorized",
    )


# --- quotas


def changes(scene: Scene) -> dict[QuotaEntity, dict[str, float | None]]:
    """Changes of which the last three are refused."""
    return {
        QuotaEntity(user=scene.name): {"producer_byte_rate": 1000, "consumer_byte_rate": None},
        QuotaEntity(user=scene.name, client_id=QuotaMatch.DEFAULT): {"request_percentage": 12.5},
        QuotaEntity(user=scene.name, client_id="zero"): {"producer_byte_rate": 0},
        QuotaEntity(user=scene.name, client_id="fraction"): {"producer_byte_rate": 0.5},
        QuotaEntity(user=scene.name, client_id="unknown"): {"no_such_quota": 1},
    }


def parts(which: QuotaEntity | QuotaFilter) -> dict[str, str | QuotaMatch]:
    return {kind: name for field, kind in ENTITY_TYPES.items() if (name := getattr(which, field)) is not None}


def changes_in_java(scene: Scene) -> list[Any]:
    return [
        [{kind: None if isinstance(name, QuotaMatch) else name for kind, name in parts(entity).items()}, values]
        for entity, values in changes(scene).items()
    ]


def quota_changes(*, validate_only: bool) -> Comparison:
    def altered(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> Any:
        wanted = changes(scene)
        return by_place(
            [*wanted],
            lambda failed: admin.alter_client_quotas(wanted, validate_only=validate_only, on_error=failed),
            on_error,
        )

    return Comparison(
        "alterClientQuotas",
        lambda scene: {"changes": changes_in_java(scene), "validateOnly": validate_only},
        altered,
        aspect="validated" if validate_only else "",
        twins=True,
        after=lambda admin, scene: own_quotas(admin, scene, 0 if validate_only else 2),
    )


def own_quotas(admin: kafwire.Admin, scene: Scene, count: int) -> Any:
    """The quotas of the scene, when there are so many of them."""
    own = QuotaFilter(user=scene.name)
    until(lambda: len(admin.describe_client_quotas(own)) == count, "the quotas")
    return [
        [str(part).replace(scene.name, "*") for part in quota] for quota in quotas(admin.describe_client_quotas(own))
    ]


def with_quotas(scene: Scene) -> None:
    with kafwire.Admin(scene.bootstrap) as admin:
        valid = dict(list(changes(scene).items())[:2])
        admin.alter_client_quotas(valid)
        own_quotas(admin, scene, 2)


def quotas(found: Mapping[QuotaEntity, dict[str, float]]) -> list[Any]:
    """Quotas as a list of entities, each as the sorted texts of its parts, and values."""
    return sorted(
        [
            sorted(f"{kind}={'null' if isinstance(name, QuotaMatch) else name}" for kind, name in parts(each).items()),
            its,
        ]
        for each, its in found.items()
    )


def quotas_of_java(found: Mapping[str, dict[str, float]]) -> list[Any]:
    return sorted([sorted(each.partition("{")[2].rstrip("})").split(", ")), its] for each, its in found.items())


def quota_lists(aspect: str, wanted: Callable[[str], QuotaFilter]) -> Comparison:
    def components(which: QuotaFilter) -> list[list[str | None]]:
        shown: dict[Any, list[str | None]] = {QuotaMatch.ANY: [], QuotaMatch.DEFAULT: [None]}
        return [[kind, *shown.get(name, [str(name)])] for kind, name in parts(which).items()]

    return Comparison(
        "describeClientQuotas",
        lambda scene: {"components": components(wanted(scene.name)), "strict": wanted(scene.name).strict},
        lambda admin, scene, _: {"all": admin.describe_client_quotas(wanted(scene.name))},
        ours=quotas,
        theirs=quotas_of_java,
        aspect=aspect,
        prepare=with_quotas,
    )


# --- SCRAM users


def users(scene: Scene) -> list[str]:
    """Users with credentials, and one without."""
    return [scene.name, f"{scene.name}-2", f"{scene.name}-none"]


def alterations(scene: Scene) -> list[ScramUpsertion | ScramDeletion]:
    first, second, none = users(scene)
    return [
        ScramUpsertion(first, SHA_256, "secret"),
        ScramUpsertion(second, SHA_512, "secret", iterations=5000),
        ScramDeletion(none, SHA_256),
    ]


def alterations_in_java(scene: Scene) -> list[list[Any]]:
    return [
        [each.user, each.mechanism, *([each.iterations, "secret"] if isinstance(each, ScramUpsertion) else [])]
        for each in alterations(scene)
    ]


def altered_users(admin: kafwire.Admin, scene: Scene, on_error: OnError) -> dict[str, None]:
    changed = alterations(scene)
    return all_but(users(scene), lambda failed: admin.alter_user_scram_credentials(changed, on_error=failed), on_error)


def own_users(admin: kafwire.Admin, scene: Scene) -> list[list[ScramCredential]]:
    """The credentials of the scene's users, when all are known."""
    wanted = users(scene)[:2]
    until(lambda: {*wanted} <= admin.describe_user_scram_credentials().keys(), "the users")
    return [*admin.describe_user_scram_credentials(wanted).values()]


def with_users(scene: Scene) -> None:
    with kafwire.Admin(scene.bootstrap) as admin:
        admin.alter_user_scram_credentials(alterations(scene)[:2])
        admin.alter_user_scram_credentials([ScramUpsertion(scene.name, SHA_512, "secret", iterations=16384)])
        own_users(admin, scene)


COMPARISONS = [
    Comparison(
        "createAcls",
        lambda scene: {"acls": [in_java(each) for each in bindings(scene)]},
        lambda admin, scene, on_error: by_place(
            bindings(scene), lambda failed: admin.create_acls(bindings(scene), on_error=failed), on_error
        ),
        twins=True,
        after=lambda admin, scene: own_acls(admin, scene, 4),
        on="authorized",
    ),
    acl_lists("own", lambda scene: AclFilter(principal=principal(scene))),
    acl_lists("matching", lambda scene: AclFilter("Topic", scene.name, principal(scene), pattern_type="Match")),
    acl_lists("prefixed", lambda scene: AclFilter("Topic", principal=principal(scene), pattern_type="Prefixed")),
    Comparison(
        "deleteAcls",
        lambda scene: {"filters": [in_java(each) for each in filters(scene)]},
        lambda admin, scene, on_error: by_place(
            filters(scene), lambda failed: admin.delete_acls(filters(scene), on_error=failed), on_error
        ),
        ours=acls,
        theirs=lambda found: acls_of_java([each["binding"] for each in found["values"]]),
        prepare=with_acls,
        twins=True,
        after=lambda admin, scene: own_acls(admin, scene, 2),
        on="authorized",
    ),
    Comparison(
        "createAcls",
        lambda scene: {"acls": [in_java(each) for each in bindings(scene)]},
        lambda admin, scene, on_error: by_place(
            bindings(scene), lambda failed: admin.create_acls(bindings(scene), on_error=failed), on_error
        ),
        aspect="disabled",
    ),
    quota_changes(validate_only=False),
    quota_changes(validate_only=True),
    quota_lists("wide", lambda name: QuotaFilter(user=name)),
    quota_lists("strict", lambda name: QuotaFilter(user=name, strict=True)),
    quota_lists("any", lambda name: QuotaFilter(user=name, client_id=QuotaMatch.ANY, strict=True)),
    quota_lists("default", lambda name: QuotaFilter(user=name, client_id=QuotaMatch.DEFAULT)),
    Comparison(
        "describeUserScramCredentials",
        lambda scene: {"users": users(scene)},
        lambda admin, scene, on_error: admin.describe_user_scram_credentials(users(scene), on_error=on_error),
        ours=lambda found: sorted([each.mechanism.replace("-", "_"), each.iterations] for each in found),
        theirs=lambda found: sorted([each["mechanism"], each["iterations"]] for each in found["credentialInfos"]),
        prepare=with_users,
    ),
    Comparison(
        "alterUserScramCredentials",
        lambda scene: {"changes": alterations_in_java(scene)},
        altered_users,
        twins=True,
        after=own_users,
    ),
]
