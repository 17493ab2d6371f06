"""Partitions as people write them: TOPIC, TOPIC:0 and TOPIC:0,3. Pure."""

from collections.abc import Callable, Iterable, Sequence

import click

from kafwire.types import TopicPartition

__all__ = ["named_partitions"]


def named_partitions(
    given: Sequence[str], option: str, numbers_of: Callable[[str], Iterable[int]]
) -> list[TopicPartition]:
    """Return the partitions that are named, sorted; `numbers_of` gives those of a topic without numbers.

    Raises:
        click.UsageError: a text is no topic, or has no numbers behind its colon. `option` is what the text stands in.
    """
    found: set[TopicPartition] = set()
    for text in given:
        topic, colon, numbers = text.rpartition(":")
        if not colon:
            topic, wanted = numbers, None
        else:
            wanted = [number.strip() for number in numbers.split(",")]
            if not all(number.isascii() and number.isdecimal() for number in wanted):
                raise click.UsageError(f"{option}{text}: TOPIC, or TOPIC:0,3")
        if not topic:
            raise click.UsageError(f"{option}{text}: the topic has no name")
        found.update(TopicPartition(topic, int(number)) for number in (numbers_of(topic) if wanted is None else wanted))
    return sorted(found)
