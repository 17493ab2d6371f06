"""Messages of a broker that plays tricks in an exchange, and the reaction that any exchange must have."""

import traceback

import pytest

from kafwire.errors import AuthenticationError
from kafwire.security.sasl.exchange import Exchange

# A secret that no object, error or log of kafwire's may show.
CANARY = "tweety-7f3a"


def reported(error: BaseException) -> str:
    """All that is shown of an error: its text, representation and traceback, with its causes."""
    return "\n".join((str(error), repr(error), *traceback.format_exception(error)))


def check_refused(exchange: Exchange, challenge: bytes) -> AuthenticationError:
    """Check that the exchange refuses a challenge, says why without any secret, and takes nothing afterwards."""
    with pytest.raises(AuthenticationError) as refused:
        exchange.respond(challenge)
    assert CANARY not in reported(refused.value)
    assert CANARY not in repr(exchange)
    with pytest.raises(AuthenticationError):
        exchange.respond(b"")
    return refused.value
