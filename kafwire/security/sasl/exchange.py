"""The interface of SASL mechanisms to a connection: one authentication, message by message."""

from __future__ import annotations

from typing import Protocol


class Exchange(Protocol):
    """One authentication on one connection (RFC 4422). Each has its own, and so has each re-authentication (KIP-368).

    The connection sends the result of `first` as the `auth_bytes` of a SaslAuthenticate request, passes `auth_bytes` of
    the response to `respond`, sends its result, and so on until `respond` returns None. `first` and `respond` may take
    long if `blocks` returns True; they are then called in a thread of their own.
    """

    @property
    def mechanism(self) -> str:
        """The name that is sent in SaslHandshake."""

    def blocks(self, challenge: bytes | None) -> bool:
        """Return whether `respond(challenge)`, or `first()` for None, may take longer than a millisecond."""

    def first(self) -> bytes:
        """Return the first message. Raises `AuthenticationError`."""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return the next message; None: the exchange is complete, and nothing is left to send.

        Raises `AuthenticationError` for a challenge that the mechanism does not allow, or that is not the broker's.
        """
