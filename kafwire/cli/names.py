"""Finds the protocol's messages by the names that users type, and suggests similar names."""

import click

from kafwire.protocol import MESSAGES, Message, Request, Response
from kafwire.protocol.dump import requests_by_key
from kafwire.similar_names import similar

__all__ = ["check_version", "find_message", "find_request"]


def find_request(text: str) -> type[Request[Response]]:
    """Return the request of an API by name, in any case, or by number: "Metadata", "MetadataResponse", "3"."""
    apis = requests_by_key()
    if text.isdecimal():
        if int(text) in apis:
            return apis[int(text)]
        raise click.BadParameter(f"no API has the key {text}; 'kafwire messages' lists them")
    names = {cls.name.removesuffix("Request").lower(): cls for cls in apis.values()}
    wanted = text.lower().removesuffix("request").removesuffix("response")
    if wanted in names:
        return names[wanted]
    near = [names[name].name.removesuffix("Request") for name in similar(wanted, names, 3)]
    raise click.BadParameter(f"there is no API {text}{_hint(near)}")


def find_message(text: str) -> type[Message]:
    """Return the message with this name, in any case."""
    names = {name.lower(): name for name in MESSAGES}
    if text.lower() in names:
        return MESSAGES[names[text.lower()]]
    near = [names[name] for name in similar(text.lower(), names, 3)]
    raise click.BadParameter(f"there is no message {text}{_hint(near)}")


def check_version(cls: type[Message], version: int) -> None:
    """Raise for a version that the message does not have."""
    if not cls.oldest_version <= version <= cls.max_version:
        raise click.BadParameter(
            f"{cls.__name__} has no version {version}, it has {cls.oldest_version} to {cls.max_version}"
        )


def _hint(near: list[str]) -> str:
    return f"; did you mean {' or '.join(near)}?" if near else "; 'kafwire messages' lists all"
