"""Escaping of text that another program sent, for errors and logs. Imports nothing."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape the characters that could forge a line of a log or control a terminal.

    Args:
        text: a text from, or with a name from, a broker, a token endpoint, a database, or a certificate.
        lines: keep the line ends of a text with several lines.

    Returns:
        One line, unless `lines`; printable characters stay, others are escaped, as `\n`, `\x1b` or `\u202e`.

    Example:
        >>> print(printable("no\nERROR all records are lost"))
        no\nERROR all records are lost
    """
    if text.isprintable():
        return text
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
