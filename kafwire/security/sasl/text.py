"""Text in SASL messages: names and passwords to bytes, and what a broker said to something that can be shown."""

from __future__ import annotations

from kafwire.errors import AuthenticationError

SHOWN_CHARACTERS = 300


def encode(text: str, what: str) -> bytes:
    """A name or a password as UTF-8. The error says what is wrong with it, and shows none of it."""
    # A UnicodeEncodeError would keep the whole text, so it is not let happen.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise AuthenticationError(f"the {what} has half of a surrogate pair, which is no text")
    if not text:
        raise AuthenticationError(f"the {what} is empty")
    if "\0" in text:
        raise AuthenticationError(f"the {what} has a NUL character, which SASL does not allow")
    return text.encode()


def show(data: bytes) -> str:
    """What a broker said, in one line of limited length."""
    text = data[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    line = "".join(character if character.isprintable() else " " for character in text).strip()
    return line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + "..."
