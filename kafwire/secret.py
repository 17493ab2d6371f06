"""`Secret`: text that must not be shown, such as passwords, private keys, tokens. Imports nothing of kafwire."""

from __future__ import annotations

import re
from typing import NoReturn

__all__ = ["HIDDEN", "Secret", "names_a_secret"]

# The text that is shown instead.
HIDDEN = "***"

# Matches Kafka's own options of the type PASSWORD, except certificates, and options of plugins.
_PATTERN = (
    r"(?i)passw|passphrase|secret|credential|private|jaas\.config|(keystore|ssl)\.key(\.pem)?$"
    r"|(master|access|api|account)\.?key"
)


def names_a_secret(option: str) -> bool:
    """Return True if the value of a broker's or client's option is a secret. The name has dots or underscores.

    Args:
        option: the name, with or without a prefix: `listener.name.external.ssl.key.password`.

    Returns:
        True if it must not be shown.

    Example:
        >>> from kafwire.secret import names_a_secret
        >>> names_a_secret("ssl.keystore.password"), names_a_secret("ssl.keystore.location")
        (True, False)
    """
    return re.search(_PATTERN, option.replace("_", ".")) is not None


class Secret:
    """A text that `repr`, logs, tracebacks and pickles do not show. Secret options accept it, or plain text.

    Args:
        text: the text, or another secret.

    Raises:
        TypeError: `text` is neither.

    Example:
        >>> import kafwire
        >>> password = kafwire.Secret("swordfish")
        >>> password, f"{password}", password.reveal()
        (Secret('***'), '***', 'swordfish')
    """

    __slots__ = ("_text",)

    _text: str

    def __init__(self, text: str | Secret) -> None:
        if isinstance(text, Secret):
            text = text._text
        if not isinstance(text, str):
            raise TypeError("a secret is text")
        self._text: str = text

    def reveal(self) -> str:
        """Return the text. Do not keep it where a log, an error or another process can show it.

        Returns:
            The given text.
        """
        return self._text

    def __repr__(self) -> str:
        return f"Secret('{HIDDEN}')"

    def __str__(self) -> str:
        return HIDDEN

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        from hmac import compare_digest

        return isinstance(other, Secret) and compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash((Secret, self._text))

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Secret cannot be pickled: pass its text to the other process by a channel for secrets")
