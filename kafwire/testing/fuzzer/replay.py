"""Replay of a find's case."""

from collections.abc import Mapping
from typing import Any

from kafwire.errors import KafkaError
from kafwire.testing.fuzzer.campaign import DIED, resolve
from kafwire.testing.fuzzer.case import Case
from kafwire.testing.fuzzer.execute import execute
from kafwire.testing.fuzzer.finds import FORMAT
from kafwire.testing.fuzzer.judge import judge
from kafwire.testing.fuzzer.world import ask_versions, survey


def replay(
    find: Mapping[str, Any],
    address: str,
    *,
    destructive: bool = False,
    allow_remote: bool = False,
    timeout: float = 5.0,
) -> list[str]:
    """Send the case of a find again.

    Args:
        find: the JSON that a campaign wrote.
        address: the server, as `host:port`.
        destructive: send cases that may change the server's data.
        allow_remote: allow addresses other than loopback.
        timeout: seconds to wait for each response.

    Returns:
        A sentence for each promise of the protocol that the server breaks.

    Raises:
        ValueError: `find` is no find.
        ForbiddenError: the case needs `destructive`.
        RemoteError: the address is not loopback.
        KafkaError: the server cannot be reached.

    Example:
        >>> from kafwire.testing.fuzzer import replay
        >>> replay({}, "localhost:9092")
        Traceback (most recent call last):
        ValueError: this is no find of `kafwire fuzz`, or one of another release
    """
    if find.get("kafwire_fuzz") != FORMAT:
        raise ValueError("this is no find of `kafwire fuzz`, or one of another release")
    target = resolve(address, allow_remote=allow_remote, timeout=timeout)
    case = Case.from_json(find["case"])
    world = survey(target, destructive=destructive)
    transcript = execute(target, case, destructive=destructive, topics=world.topic_ids())
    said = [
        f"{broken.rule}: {case.steps[broken.step].api} version {case.steps[broken.step].version}: {broken.detail} "
        f"({broken.promise})"
        for broken in judge(transcript, world)
    ]
    try:
        ask_versions(target)
    except KafkaError as error:
        said.append(f"{DIED}: {error}")
    return said
