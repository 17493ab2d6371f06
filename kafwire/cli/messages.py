"""`kafwire messages`: the APIs of the protocol with their versions, and the fields of a message in one version."""

from typing import Any
from uuid import UUID

import click

from kafwire.cli.names import check_version, find_message, find_request
from kafwire.cli.output import JsonWriter, pretty_option
from kafwire.protocol import MESSAGES, Message, Request, Response, Struct
from kafwire.protocol.dump import requests_by_key
from kafwire.protocol.kafka_json import camel_case
from kafwire.protocol.spec import Field

__all__ = ["command", "version_cells"]


# "\b" keeps click from re-wrapping the paragraph
_HELP = """List the APIs and their versions, or show the fields of NAME: an API (both its messages) or a message.

\b
  kafwire messages
  kafwire messages Metadata --version 12
  kafwire messages --json | jq -r 'select(.apiKey == null).message'
"""


@click.command("messages", help=_HELP)
@click.argument("name", required=False)
@click.option("--version", type=int, metavar="N", help="The version to show. [default: the highest stable one]")
@click.option("-J", "--json", "as_json", is_flag=True, help="As JSON.")
@pretty_option
def command(name: str | None, version: int | None, as_json: bool, pretty: bool | None) -> None:
    """List messages, or show one."""
    if name is None:
        if version is not None:
            raise click.UsageError("--version needs a name")
        _list(JsonWriter(pretty) if as_json else None)
        return
    chosen: list[type[Message]]
    if name.lower().endswith(("request", "response")) or name.lower() in {known.lower() for known in MESSAGES}:
        chosen = [find_message(name)]
    else:
        request = find_request(name)
        chosen = [request, request.response]
    for cls in chosen:
        if version is not None:
            check_version(cls, version)
        shown = _highest_stable(cls) if version is None else version
        described = {**_describe(cls), "version": shown, "fields": _fields(cls, shown)}
        if as_json:
            JsonWriter(pretty).write(described)
        else:
            flexible = ", flexible" if shown >= cls.flexible_from else ""
            click.echo(f"{cls.__name__} version {shown} of {cls.oldest_version} to {cls.max_version}{flexible}")
            _print_fields(described["fields"], "  ")


def _list(writer: JsonWriter | None) -> None:
    if writer is not None:
        for name in MESSAGES:
            writer.write(_describe(MESSAGES[name]))
        return
    rows: list[tuple[str, ...]] = [("KEY", "API", "VERSIONS", "FLEXIBLE", "")]
    for key, cls in sorted(requests_by_key().items()):
        rows.append((str(key), cls.name.removesuffix("Request"), *version_cells(cls)))
    rows += [
        ("-", name, *version_cells(MESSAGES[name]))
        for name in MESSAGES
        if not issubclass(MESSAGES[name], Request | Response)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].rjust(widths[0]), *(text.ljust(width) for text, width in zip(row[1:], widths[1:], strict=True))]
        click.echo("  ".join(cells).rstrip())


def version_cells(cls: type[Message]) -> tuple[str, str, str]:
    """The versions, those that are flexible, and a note on versions that are not negotiated."""
    described = _describe(cls)
    oldest, valid, high = described["oldestVersion"], described["minVersion"], described["maxVersion"]
    flexible = described["flexibleFrom"]
    notes = []
    if valid != oldest:
        notes.append(f"Kafka 4 removed {_range(oldest, high if valid is None else valid - 1)}")
    if described["maxStableVersion"] != high:
        notes.append(f"version {high} is unstable")
    return _range(oldest, high), "-" if flexible is None else f"{flexible}+", ", ".join(notes)


def _range(low: int, high: int) -> str:
    return str(low) if low == high else f"{low}-{high}"


def _describe(cls: type[Message]) -> dict[str, Any]:
    return {
        "message": cls.__name__,
        "apiKey": cls.api_key if issubclass(cls, Request | Response) else None,
        "oldestVersion": cls.oldest_version,
        "minVersion": cls.min_version if cls.min_version <= cls.max_version else None,  # None: Kafka 4 removed all
        "maxVersion": cls.max_version,
        "maxStableVersion": _highest_stable(cls),
        "flexibleFrom": cls.flexible_from if cls.flexible_from <= cls.max_version else None,
    }


def _highest_stable(cls: type[Message]) -> int:
    if issubclass(cls, Response):  # only the request declares a version unstable
        request = requests_by_key()[cls.api_key]
        return min(cls.max_version, request.max_stable_version)
    return cls.max_stable_version if issubclass(cls, Request) else cls.max_version


def _fields(cls: type[Struct], version: int) -> list[dict[str, Any]]:
    return [_field(field, version) for field in cls.__fields__ if version in field.versions]


def _field(field: Field, version: int) -> dict[str, Any]:
    kind = field.struct.__name__ if field.struct else field.kind
    described: dict[str, Any] = {
        "name": camel_case(field.name),
        "type": f"[]{kind}" if field.array else kind,
        "nullable": version in field.nullable,
        "tag": field.tag if version in field.tagged else None,
    }
    if not field.fresh and field.kind != "records" and field.default not in (0, "", b"", UUID(int=0)):
        described["default"] = field.default
    if field.struct is not None:
        described["fields"] = _fields(field.struct, version)
    return described


def _print_fields(fields: list[dict[str, Any]], indent: str) -> None:
    for field in fields:
        notes = [field["type"]]
        if field["nullable"]:
            notes.append("nullable")
        if field["tag"] is not None:
            notes.append(f"tag {field['tag']}")
        if "default" in field:
            default = field["default"]
            notes.append(f"default {'null' if default is None else str(default).lower()}")
        click.echo(f"{indent}{field['name']}: {', '.join(notes)}")
        _print_fields(field.get("fields", []), indent + "  ")
