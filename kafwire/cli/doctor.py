"""`kafwire doctor`: finds what prevents a client from using a cluster, and suggests changes."""

import logging
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafwire.cli.connection import client_options, settings_options, timeout_ms, timeout_option
from kafwire.cli.output import JsonWriter, pretty_option, say

if TYPE_CHECKING:
    from kafwire.cli.diagnosis import Finding

__all__ = ["command", "quiet"]

_HELP = """Check a broker step by step: its name, a connection, TLS and login if -X or -F configure them, the protocol,
versions, the addresses that the cluster advertises. Then create a topic, send a record to it and read it, and delete
the topic.

\b
  kafwire doctor localhost:9092
  kafwire doctor kafka.example.org:9093 -F client.properties
  kafwire doctor kafka.example.org --no-write
  kafwire doctor localhost -J

Exit code 1: a check failed.
"""


@click.command("doctor", help=_HELP)
@click.argument("server", metavar="HOST[:PORT]")
@settings_options
@click.option("--no-write", is_flag=True, help="Create no topic and send no record.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print a JSON object per step.")
@pretty_option
@timeout_option
def command(
    server: str,
    settings: tuple[str, ...],
    config_file: Path | None,
    no_write: bool,
    as_json: bool,
    pretty: bool | None,
) -> int:
    """Check one broker."""
    from kafwire.cli.diagnosis import examine
    from kafwire.config import ClientConfig
    from kafwire.config.bootstrap import parse_servers

    if pretty is not None and not as_json:
        raise click.UsageError("--pretty and --compact are for -J")
    try:
        servers = parse_servers(server)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if len(servers) != 1:
        raise click.UsageError("give only one server")
    options = client_options(ClientConfig, server, settings, config_file)
    del options["bootstrap_servers"], options["default_api_timeout_ms"]
    writer = JsonWriter(pretty) if as_json else None
    wrong = False
    # Closing the generator in any case deletes its topic.
    with quiet(), closing(examine(*servers[0], timeout_ms() / 1000, options, writes=not no_write)) as findings:
        for finding in findings:
            wrong |= not finding.ok
            if writer is not None:
                writer.write(asdict(finding))
                writer.flush()
            else:
                for line in lines(finding):
                    say(line)
    return int(wrong)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the clients' logs: the findings have their content."""
    log = logging.getLogger("kafwire")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def lines(finding: "Finding") -> Iterable[str]:
    """Return the printed lines of a step."""
    yield f"{'ok' if finding.ok else 'WRONG':5}  {finding.step:10}  {finding.seen}"
    if finding.change:
        yield f"{'':17}  -> {finding.change}"
