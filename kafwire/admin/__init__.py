"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.acls import AclBinding, AclFilter
    from kafwire.admin.quotas import QuotaEntity, QuotaFilter, QuotaMatch
    from kafwire.admin.topics import CreatedTopic, NewTopic
    from kafwire.admin.users import ScramCredential, ScramDeletion, ScramUpsertion

__all__ = [
    "AclBinding",
    "AclFilter",
    "CreatedTopic",
    "NewTopic",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaMatch",
    "ScramCredential",
    "ScramDeletion",
    "ScramUpsertion",
]

_ACLS = ("AclBinding", "AclFilter")
_QUOTAS = ("QuotaEntity", "QuotaFilter", "QuotaMatch")
_TOPICS = ("CreatedTopic", "NewTopic")
_USERS = ("ScramCredential", "ScramDeletion", "ScramUpsertion")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(_ACLS, "kafwire.admin.acls")
        | dict.fromkeys(_QUOTAS, "kafwire.admin.quotas")
        | dict.fromkeys(_TOPICS, "kafwire.admin.topics")
        | dict.fromkeys(_USERS, "kafwire.admin.users"),
    )
