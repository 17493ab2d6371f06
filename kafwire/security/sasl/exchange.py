"""What every SASL mechanism is to a connection: one authentication, message by message."""

from __future__ import annotations

from typing import Protocol


class Exchange(Protocol):
    """One authentication on one connection (RFC 4422). Made anew for each, also for re-authentication (KIP-368).

    The connection sends what `first` returns as the `auth_bytes` of a SaslAuthenticate request, gives `auth_bytes` of
    the response to `respond`, sends what that returns, and so on until `respond` returns None. Both may take long where
    `blocks` says so: they are called in a thread of their own then.
    """

    @property
    def mechanism(self) -> str:
        """The name that is sent in SaslHandshake."""

    def blocks(self, challenge: bytes | None) -> bool:
        """Whether `respond(challenge)`, or `first()` for None, may take longer than a millisecond."""

    def first(self) -> bytes:
        """The first message. Raises `AuthenticationError`."""

    def respond(self, challenge: bytes) -> bytes | None:
        """What to send next; None: the broker has proved itself and nothing is left to send.

        Raises `AuthenticationError` for a challenge that the mechanism does not allow, or that is not the broker's.
        """
