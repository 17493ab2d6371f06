"""Errors of a catalog during `kafwire copy --to iceberg:`: one line, an exit code, and each record once afterwards."""

from __future__ import annotations

import errno
import os
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("pyiceberg")

from pyiceberg import exceptions
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import PyArrowFile
from pyiceberg.types import IntegerType, StringType
from sqlalchemy.exc import OperationalError

import kafwire
from kafwire.cli import main
from kafwire.lake import iceberg_tables, table_errors
from kafwire.lake.iceberg_copy import ATTEMPTS
from tests.support.lakes import Lake

pytestmark = pytest.mark.either_kafka

ADDED = 3


class Errors:
    """Runs of the command in this process, with a catalog whose commits fail."""

    def __init__(self, lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.lake = lake
        self._patch = monkeypatch
        self._capsys = capsys
        self.properties = lake.properties
        # pyiceberg reads its environment once
        monkeypatch.setattr(iceberg_tables, "load_catalog", lambda name: load_catalog(name, **self.properties))

    def run(self, *more: str) -> str:
        """Return the line of the error, or nothing if the run succeeded."""
        words = ["copy", self.lake.topic, "--to", "iceberg:main/sales.orders", "-b", self.lake.cluster.bootstrap]
        with pytest.raises(SystemExit) as ended:
            main([*words, *more])
        text = self._capsys.readouterr().err
        assert "Traceback" not in text
        assert text.count("\n") == ended.value.code == (1 if text else 0), text
        return text

    def at_commit(self, act: Callable[[], None], *, before: int = 1, after_commit: bool = False) -> None:
        """Run an act at each of the next commits: in their place, or after them."""
        left, commit = [before], SqlCatalog.commit_table

        def commit_table(catalog: Any, *arguments: Any) -> Any:
            left[0] -= 1
            response = None if left[0] >= 0 and not after_commit else commit(catalog, *arguments)
            if left[0] >= 0:
                act()
            return commit(catalog, *arguments) if response is None else response

        self._patch.setattr(SqlCatalog, "commit_table", commit_table)


@pytest.fixture
def errors(lake: Lake, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Errors:
    lake.send(ADDED)
    return Errors(lake, monkeypatch, capsys)


def raising(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


def sqlite_error(name: str, text: str) -> OperationalError:
    inner = sqlite3.OperationalError(text)
    inner.sqlite_errorname = name
    return OperationalError("UPDATE iceberg_tables\nSET metadata_location=?", {}, inner)


UNKNOWN = "the catalog did not report whether it committed the last records"
IN_COMMITS = [
    (exceptions.CommitStateUnknownException("gateway"), UNKNOWN),
    (exceptions.ServerError("a page\nof lines"), UNKNOWN),
    (ConnectionError("reset by peer"), UNKNOWN),
    (TimeoutError("no response"), UNKNOWN),
    (sqlite_error("SQLITE_BUSY", "database is locked"), UNKNOWN),
    (ValueError("no JSON"), UNKNOWN),
    (exceptions.ForbiddenError("NotAuthorizedException: no"), "access is denied"),
    (exceptions.AuthorizationExpiredError("419"), "access is denied"),
    (sqlite_error("SQLITE_READONLY_DIRECTORY", "attempt to write a readonly database"), "access is denied"),
    (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), "no space is left"),
    (sqlite_error("SQLITE_FULL", "database or disk is full"), "no space is left"),
    (exceptions.NoSuchTableError("sales.orders"), "the table was dropped"),
]


@pytest.mark.parametrize(("error", "text"), IN_COMMITS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("committed", [False, True])
def test_a_commit_that_fails_adds_each_record_once(
    errors: Errors, error: Exception, text: str, committed: bool
) -> None:
    lake = errors.lake
    errors.at_commit(raising(error), after_commit=committed)
    said = errors.run()
    if committed:
        assert not said, "the table has the snapshot"
    else:
        assert text in said
        assert f"the copy {lake.topic!r} in the table sales.orders" in said
        assert type(error).__name__ in said
        assert "run the copy again" in said
        assert "UPDATE" not in said
    assert not errors.run()
    assert lake.copied() == lake.sent()


@pytest.mark.parametrize("committed", [False, True])
def test_the_next_run_finds_whether_a_commit_of_unknown_state_took_place(
    errors: Errors, monkeypatch: pytest.MonkeyPatch, committed: bool
) -> None:
    """The catalog is not reachable afterwards, so that the run itself cannot look."""
    lake, load = errors.lake, SqlCatalog.load_table
    lake.create()

    def act() -> None:
        monkeypatch.setattr(SqlCatalog, "load_table", lambda *_: raising(ConnectionError("refused"))())
        raise exceptions.CommitStateUnknownException("gateway")

    errors.at_commit(act, after_commit=committed)
    said = errors.run()
    assert UNKNOWN in said
    assert "it finds in the table whether the snapshot exists" in said
    monkeypatch.setattr(SqlCatalog, "load_table", load)
    assert len(lake.copied()) == (ADDED if committed else 0)
    assert not errors.run()
    assert lake.copied() == lake.sent()


def test_a_commit_of_unknown_state_is_in_doubt(errors: Errors, client: kafwire.Client) -> None:
    errors.lake.create()
    errors.at_commit(raising(exceptions.CommitStateUnknownException("gateway")))
    with pytest.raises(table_errors.CommitUnknownError) as found:
        list(errors.lake.copy(client))
    assert found.value.in_doubt
    errors.at_commit(raising(exceptions.ForbiddenError("no")))
    with pytest.raises(table_errors.TableAccessError) as denied:
        list(errors.lake.copy(client))
    assert not denied.value.in_doubt


def test_a_lost_response_deletes_no_files_if_pyiceberg_does_not_retry(errors: Errors) -> None:
    lake = errors.lake
    lake.create()
    lake.table.transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    errors.at_commit(raising(exceptions.CommitFailedException("the gateway repeated it")), after_commit=True)
    assert not errors.run()
    assert lake.copied() == lake.sent()


def test_writers_that_are_always_faster_end_the_copy(errors: Errors) -> None:
    lake = errors.lake
    lake.create()
    lake.table.transaction().set_properties({"commit.retry.num-retries": "0"}).commit_transaction()
    errors.at_commit(raising(exceptions.CommitFailedException("branch main has changed")), before=ATTEMPTS)
    assert "other writers were faster in each attempt (CommitFailedException: branch main has changed)" in errors.run()
    assert not errors.run()
    assert lake.copied() == lake.sent()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_table_that_is_dropped_between_two_commits_is_an_error(errors: Errors, replaced: bool) -> None:
    lake = errors.lake
    lake.create()

    def drop() -> None:
        lake.load().drop_table("sales.orders")
        if replaced:
            lake.create()

    errors.at_commit(drop)
    assert ("the table was replaced by another one" if replaced else "the table was dropped") in errors.run()
    assert not errors.run()
    assert lake.copied() == lake.sent()


def test_records_fit_to_the_columns_at_the_commit(errors: Errors) -> None:
    lake = errors.lake
    lake.create()
    errors.at_commit(lambda: add(lake, "note", StringType(), required=False))
    assert not errors.run(), "an optional column stays null"
    lake.send(2)
    errors.at_commit(lambda: add(lake, "count", IntegerType(), required=True))
    said = errors.run()
    assert "the columns of the copy" in said
    assert "count" in said
    assert "\\n" not in said
    with lake.table.update_schema() as change:
        change.delete_column("count")
    assert not errors.run()
    assert lake.copied() == lake.sent()


def add(lake: Lake, column: str, kind: Any, *, required: bool) -> None:
    with lake.table.update_schema(allow_incompatible_changes=True) as change:
        change.add_column(column, kind, required=required)


@pytest.mark.parametrize("part", ["data", "metadata"])
def test_a_full_disk_is_an_error_in_each_part(errors: Errors, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    lake, create = errors.lake, PyArrowFile.create
    lake.create()

    def full(file: Any, *arguments: Any, **options: Any) -> Any:
        if f"/{part}/" in file.location:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return create(file, *arguments, **options)

    monkeypatch.setattr(PyArrowFile, "create", full)
    assert "no space is left (OSError: [Errno 28] No space left on device); free some" in errors.run()
    monkeypatch.setattr(PyArrowFile, "create", create)
    assert not errors.run()
    assert lake.copied() == lake.sent()


def test_a_catalog_that_cannot_be_opened_is_an_error(errors: Errors) -> None:
    errors.properties["uri"] = "sqlite:////nowhere/catalog.db"
    said = errors.run()
    assert "iceberg:main/sales.orders: the catalog is not available" in said
    assert "unable to open database file" in said
    errors.properties |= {"type": "rest", "uri": "http://127.0.0.1:9"}
    assert "the catalog is not available (ConnectionError: HTTPConnectionPool" in errors.run()
