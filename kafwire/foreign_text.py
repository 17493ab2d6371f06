"""Text that another program sent, made fit for errors and logs. Imports nothing."""

from __future__ import annotations

__all__ = ["printable"]


def printable(text: str, *, lines: bool = False) -> str:
    r"""Escape the characters that could forge a line of a log or steer a terminal.

    Args:
        text: the text of a broker, a token endpoint, a database, a certificate, or with a name from any of them.
        lines: keep the ends of lines, of texts that have several.

    Returns:
        One line, unless `lines`; characters that are printable stay, other ones become `\n`, `\x1b` or `\u202e`.

    Example:
        >>> print(printable("no\nERROR all records are lost"))
        no\nERROR all records are lost
    """
    if text.isprintable():
        return text
    if lines:
        return "\n".join(map(printable, text.split("\n")))
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
