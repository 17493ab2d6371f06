"""The principal in an Envelope request, as Kafka's default principal builder writes it. See KIP-590.

The bytes begin with the version, an int16 that is not part of the message.
"""

from kafwire.protocol.spec import Data, field


class DefaultPrincipalData(Data, versions="0", flexible="0+"):
    """The sender of a request that a broker forwards: mostly type "User" and the name."""

    type: str = field("0+")
    name: str = field("0+")
    token_authenticated: bool = field("0+")
