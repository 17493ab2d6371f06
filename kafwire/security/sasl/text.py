"""Text in SASL messages: names and passwords as bytes, and a broker's message as printable text."""

from __future__ import annotations

from kafwire.errors import AuthenticationError

SHOWN_CHARACTERS = 300


def encode(text: str, what: str) -> bytes:
    """Return a name or a password as UTF-8. Errors give the reason, without showing the text."""
    # Avoids a UnicodeEncodeError, which would hold the whole text.
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise AuthenticationError(f"the {what} has an unpaired surrogate, which is not valid text")
    if not text:
        raise AuthenticationError(f"the {what} is empty")
    if "\0" in text:
        raise AuthenticationError(f"the {what} has a NUL character, which SASL does not allow")
    return text.encode()


def show(data: bytes) -> str:
    """Return a broker's message as one line of limited length."""
    text = data[: 4 * SHOWN_CHARACTERS].decode(errors="replace")
    line = "".join(character if character.isprintable() else " " for character in text).strip()
    return line if len(line) <= SHOWN_CHARACTERS else line[:SHOWN_CHARACTERS] + "..."
