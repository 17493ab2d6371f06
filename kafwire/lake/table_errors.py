"""Errors of Iceberg tables and their catalogs: each has the cause, the table and a remedy. Pure.

Each catalog raises the errors of its libraries. So a kind is found by names: those of the error's classes, and the
codes of the operating system, SQLite, PostgreSQL and AWS.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from kafwire.errors import KafkaError

_AGAIN = "run the copy again: it continues behind the last snapshot"
_BOXES = re.compile("[\u2500-\u257f]")  # of pyiceberg's tables of columns
_AWS_CODE = re.compile(r"AWS Error (\w+)")


class TableError(KafkaError):
    """A step of a copy to an Iceberg table failed."""


class CatalogUnavailableError(TableError):
    """The catalog cannot be reached, or refuses requests for a time."""


class CommitConflictError(TableError):
    """Other writers of the table committed first, in each attempt."""


class CommitUnknownError(TableError):
    """The catalog did not report whether it committed the snapshot."""

    in_doubt = True


class TableGoneError(TableError):
    """The table was dropped, or replaced by another one."""


class TableColumnsError(TableError):
    """The records do not fit to the columns of the table."""


class TableAccessError(TableError):
    """The catalog, or the storage of the table, denies access."""


class StorageFullError(TableError):
    """The storage of the table, or of its catalog, has no space left."""


class _Kind(NamedTuple):
    error: type[TableError]
    names: frozenset[str]
    cause: str
    remedy: str


_KINDS = (
    _Kind(
        StorageFullError,
        frozenset({"ENOSPC", "EDQUOT", "EFBIG", "SQLITE_FULL", "53100"}),
        "no space is left",
        f"free some, and {_AGAIN}",
    ),
    _Kind(
        TableAccessError,
        frozenset(
            {
                *("EACCES", "EPERM", "EROFS", "PermissionError", "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH"),
                *("UnauthorizedError", "ForbiddenError", "AuthorizationExpiredError", "OAuthError", "SignError"),
                *("42501", "AccessDenied", "AccessDeniedException", "ACCESS_DENIED", "EXPIRED_TOKEN"),
            }
        ),
        "access is denied",
        f"grant it, or renew the credentials, and {_AGAIN}",
    ),
    _Kind(
        TableGoneError,
        frozenset({"NoSuchTableError", "NoSuchNamespaceError"}),
        "the table was dropped",
        "restore it, or run the copy again: it creates the table, and begins at the beginning of the topic",
    ),
    _Kind(
        CommitConflictError,
        frozenset({"CommitFailedException", "ValidationException"}),
        "other writers were faster in each attempt",
        f"{_AGAIN}, when fewer writers commit",
    ),
    _Kind(
        CatalogUnavailableError,
        frozenset(
            {
                *("ConnectionError", "Timeout", "TimeoutError", "BotoCoreError", "TTransportException"),
                *("ServiceUnavailableError", "ServerError", "TooManyRequestsError", "WaitingForLockException"),
                *("OperationalError", "InterfaceError"),
            }
        ),
        "the catalog is not available",
        f"check that it runs at its address, and {_AGAIN}",
    ),
)
_UNKNOWN = (
    "the catalog did not report whether it committed the last records",
    "run the copy again: it finds in the table whether the snapshot exists, and copies the records only if not",
)


def table_error(error: Exception, where: str, remedy: str = _AGAIN) -> TableError:
    """Return the error of a step that commits nothing; `remedy` is for one whose kind is not known."""
    names = set(_names(error))
    for kind in _KINDS:
        if kind.names & names:
            return kind.error(_message(where, kind.cause, error, kind.remedy))
    return TableError(_message(where, "pyiceberg failed", error, remedy))


def commit_error(error: Exception, where: str) -> TableError:
    """Return the error of a request to commit. It is in doubt unless the kind excludes a commit."""
    found = table_error(error, where)
    if type(found) in (TableError, CatalogUnavailableError):
        return CommitUnknownError(_message(where, _UNKNOWN[0], error, _UNKNOWN[1]))
    return found


def columns_error(error: Exception, where: str) -> TableColumnsError:
    """Return the error of columns that pyiceberg refused."""
    remedy = "change them as docs/guide/copies.md says, or copy to another table"
    return TableColumnsError(f"the columns of {where} do not fit to the topic's records ({_text(error)}): {remedy}")


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Raise `TableError` instead of the errors of pyiceberg and its libraries."""
    try:
        yield
    except KafkaError:
        raise
    except Exception as error:
        raise table_error(error, where) from error


def _message(where: str, cause: str, error: Exception, remedy: str) -> str:
    return f"{where}: {cause} ({type(error).__name__}: {_text(error)}); {remedy}"


def _text(error: Exception) -> str:
    """Return one line. SQLAlchemy's own text has the statement too."""
    return " ".join(_BOXES.sub(" ", str(getattr(error, "orig", None) or error)).split())


def _names(error: Exception) -> Iterator[str]:
    inner = getattr(error, "orig", None) or error  # SQLAlchemy has the database's error inside
    for each in (error, inner):
        yield from (kind.__name__ for kind in type(each).__mro__)
    yield errno.errorcode.get(getattr(inner, "errno", None) or 0, "")
    yield "_".join(getattr(inner, "sqlite_errorname", "").split("_")[:2])  # without the extended code
    yield getattr(inner, "sqlstate", None) or ""
    yield from _AWS_CODE.findall(str(error))
    match getattr(error, "response", None):
        case {"Error": {"Code": str(code)}}:  # botocore
            yield code
