"""`kafwire letters`: lists the dead letters of streams, and sends them back to their topics."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafwire.cli.connection import client_options, connection_options_for, only
from kafwire.cli.output import JsonWriter, print_table, say, time_text
from kafwire.foreign_text import printable
from kafwire.protocol.batch_json import bytes_json

if TYPE_CHECKING:
    from kafwire.cli.letter_requests import Letters
    from kafwire.stream.dead_letters import Letter, LetterFilter

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])

_HELP = """List the dead letters of streams, and send them back to their original topics.

\b
  kafwire letters list orders.dead -b localhost:9092
  kafwire letters list orders.dead --error TimeoutError --since 2026-11-25T12:00:00Z
  kafwire letters send orders.dead --step charge --dry-run
  kafwire letters send orders.dead --step charge

TOPIC is the topic of dead letters. A letter is sent once: the transaction that sends it also writes a receipt.
"""

_HEADER = ("LETTER", "WRITTEN", "TOPIC", "PARTITION", "OFFSET", "KEY", "STEP", "ERROR", "MESSAGE", "ATTEMPTS", "SENT")


@click.group("letters", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


def _filters(function: F) -> F:
    """Add the options that select letters."""
    for option in (
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most N letters."),
        click.option("--until", metavar="TIME", help="Written before this time."),
        click.option(
            "--since", metavar="TIME", help="Written at this time or later: 2026-11-25T12:00:00Z, or milliseconds."
        ),
        click.option("--key", "keys", multiple=True, metavar="TEXT", help="The record's key; may be repeated."),
        click.option(
            "--partition", "partitions", multiple=True, type=click.IntRange(min=0), help="The record's partition."
        ),
        click.option("--topic", "origin", metavar="TOPIC", help="The record's original topic."),
        click.option(
            "--step", "steps", multiple=True, metavar="TEXT", help="A part of the step's name; may be repeated."
        ),
        click.option(
            "--error",
            "errors",
            multiple=True,
            metavar="CLASS",
            help="The error's class, such as ValueError or billing.CardError (or CardError); may be repeated.",
        ),
    ):
        function = option(function)
    return function


@command.command("list")
@click.argument("topic", metavar="TOPIC")
@connection_options_for("ScanConfig")
@_filters
@click.option("--all", "with_sent", is_flag=True, help="Include letters that were sent back.")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each letter.")
def list_letters(
    topic: str,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    with_sent: bool,
    as_json: bool,
    limit: int | None,
    **chosen: Any,
) -> int:
    """List dead letters that were not sent back."""
    wanted = _filter(**chosen)
    letters = _letters(topic, brokers, settings, config_file)
    found = islice(((letter, sent) for letter, sent in letters.find(wanted) if with_sent or not sent), limit)
    if as_json:
        writer = JsonWriter(pretty=False)
        for letter, sent in found:
            writer.write(_as_json(letter, sent))
        writer.flush()
        return _code(letters)
    rows = [_row(letter, sent) for letter, sent in found]
    print_table(_HEADER, rows)
    say(f"{len(rows)} letter(s)")
    return _code(letters)


@command.command("send")
@click.argument("topic", metavar="TOPIC")
@connection_options_for("ProducerConfig")
@_filters
@click.option("--to", metavar="TOPIC", help="Send to this topic instead of the record's original topic.")
@click.option("--dry-run", is_flag=True, help="Count the letters, and send nothing.")
def send_letters(
    topic: str,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    to: str | None,
    dry_run: bool,
    limit: int | None,
    **chosen: Any,
) -> int:
    """Send dead letters back to their topics, each once: a sent letter is never sent again."""
    from kafwire import Producer
    from kafwire.cli.letter_requests import send
    from kafwire.config import ProducerConfig

    wanted = _filter(**chosen)
    if dry_run:
        counts: dict[str, int] = {}
        letters = _letters(topic, brokers, settings, config_file)
        for letter in _unsent(letters, wanted, limit):
            counts[to or letter.topic] = counts.get(to or letter.topic, 0) + 1
        _report("would send", counts)
        return _code(letters)
    options = client_options(ProducerConfig, brokers, settings, config_file)
    options.setdefault("transactional_id", f"kafwire.letters.{topic}")
    with Producer(**options) as producer:
        # First, so that another command with the same letters is fenced, and its open transaction aborted.
        producer.init_transactions()
        letters = _letters(topic, brokers, settings, config_file)
        counts = send(producer, _unsent(letters, wanted, limit), to)
    _report("sent", counts)
    return _code(letters)


def _code(letters: Letters) -> int:
    """Return the exit code: 1 if partitions were skipped."""
    return 1 if letters.late else 0


def _letters(topic: str, brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Letters:
    from kafwire.cli.consume_source import warn_late
    from kafwire.cli.letter_requests import Letters
    from kafwire.config import ConsumerConfig, ScanConfig

    options = client_options(ConsumerConfig, brokers, _without_producers(settings), config_file)
    letters = Letters(only(options, ScanConfig), topic)
    warn_late("letters", letters.late, "is skipped")
    if letters.others:
        say(f"kafwire letters: {letters.others} record(s) of {topic} are not dead letters of a stream", err=True)
    return letters


def _without_producers(settings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings that readers have too."""
    from dataclasses import fields

    from kafwire.config import ConsumerConfig, ProducerConfig

    readers = {item.name for item in fields(ConsumerConfig)}
    writers = {item.name for item in fields(ProducerConfig)} - readers
    return tuple(one for one in settings if one.partition("=")[0].strip().replace(".", "_") not in writers)


def _unsent(letters: Letters, wanted: LetterFilter, limit: int | None) -> Iterator[Letter]:
    return islice((letter for letter, sent in letters.find(wanted) if not sent), limit)


def _report(verb: str, counts: dict[str, int]) -> None:
    for topic, count in sorted(counts.items()):
        say(f"{verb} {count} letter(s) to {topic}")
    if not counts:
        say(f"{verb} no letters")


def _filter(
    errors: Sequence[str],
    steps: Sequence[str],
    origin: str | None,
    partitions: Sequence[int],
    keys: Sequence[str],
    since: str | None,
    until: str | None,
) -> LetterFilter:
    from kafwire.cli.consume_source import milliseconds
    from kafwire.stream.dead_letters import LetterFilter

    return LetterFilter(
        frozenset(errors),
        frozenset(steps),
        origin,
        frozenset(partitions),
        frozenset(key.encode(errors="surrogateescape") for key in keys),
        None if since is None else milliseconds("--since", since, since),
        None if until is None else milliseconds("--until", until, until),
    )


def _row(letter: Letter, sent: bool) -> tuple[str, ...]:
    texts = (
        f"{letter.record.partition}:{letter.record.offset}",
        time_text(letter.record.timestamp_ms),
        letter.topic,
        *("" if number is None else str(number) for number in (letter.partition, letter.offset)),
        _key(letter) or "",
        letter.step,
        letter.error,
        letter.message[:60],
        "" if letter.attempts is None else str(letter.attempts),
        "yes" if sent else "",
    )
    return tuple(map(printable, texts))


def _key(letter: Letter) -> str | None:
    key: bytes | None = letter.record.key
    return None if key is None else key.decode("utf-8", "replace")


def _as_json(letter: Letter, sent: bool) -> dict[str, Any]:
    return {
        "topic": letter.record.topic,
        "partition": letter.record.partition,
        "offset": letter.record.offset,
        "ts": letter.record.timestamp_ms,
        "origin": {"topic": letter.topic, "partition": letter.partition, "offset": letter.offset},
        "key": bytes_json(letter.record.key),
        "step": letter.step,
        "error": letter.error,
        "message": letter.message,
        "attempts": letter.attempts,
        "sent": sent,
    }
