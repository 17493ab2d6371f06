"""Parses partitions in the user's notation: TOPIC, TOPIC:0 and TOPIC:0,3. Pure."""

from collections.abc import Iterable, Sequence

import click

__all__ = ["named_partitions"]


def named_partitions(given: Iterable[str], option: str) -> list[tuple[str, Sequence[int] | None]]:
    """Return the topic and the partition numbers of each text; None stands for all partitions of the topic.

    Raises:
        click.UsageError: a text has no topic, or no numbers after its colon. The error begins with `option`.
    """
    found: list[tuple[str, Sequence[int] | None]] = []
    for text in given:
        topic, colon, numbers = text.rpartition(":") if ":" in text else (text, "", "")
        wanted = [number.strip() for number in numbers.split(",")]
        if colon and not all(number.isascii() and number.isdecimal() for number in wanted):
            raise click.UsageError(f"{option}{text}: expected TOPIC, or TOPIC:0,3")
        if not topic:
            raise click.UsageError(f"{option}{text}: the topic has no name")
        found.append((topic, [int(number) for number in wanted] if colon else None))
    return found
