"""SASL/GSSAPI (RFC 4752): Kerberos, through the package `gssapi`. Authentication only, without a security layer.

It calls the Kerberos libraries, which read their configuration, ticket caches and clocks, and contact the KDC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.config.sasl_mechanisms import GSSAPI
from kafwire.errors import AuthenticationError

if TYPE_CHECKING:
    import gssapi
    from gssapi.raw.misc import GSSError

MECHANISM = GSSAPI.name
AUTH_ONLY = 1  # of RFC 4752's bit mask of security layers: none
_LAYERS_BYTES = 4


class GssapiExchange:
    """One authentication with a Kerberos ticket.

    Args:
        service: the brokers' service name, as in `sasl.kerberos.service.name`: "kafka".
        host: the broker's name; the broker's principal is `service/host`.
        principal: the client's principal; None: the principal of the ticket cache, or of the keytab.
        keytab: a file with the principal's key; None: take tickets from the user's cache.
        cache: the cache for tickets from the keytab, such as "MEMORY:name"; exchanges may share it.
    """

    mechanism = MECHANISM

    def __init__(
        self,
        service: str,
        host: str,
        *,
        principal: str | None = None,
        keytab: str | None = None,
        cache: str = "MEMORY:",
    ) -> None:
        self._target = f"{service}@{host}"
        self._principal = principal
        self._keytab = keytab
        self._cache = cache
        self._context: gssapi.SecurityContext | None = None
        self._next = "first"

    def blocks(self, challenge: bytes | None) -> bool:
        """Return True: it contacts the KDC for tickets."""
        del challenge
        return True

    def first(self) -> bytes:
        """Return the first token for the broker. Raises `AuthenticationError` if Kerberos gives no ticket for it."""
        import gssapi
        from gssapi.raw.misc import GSSError

        try:
            target = gssapi.Name(self._target, gssapi.NameType.hostbased_service)
            flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
            self._context = gssapi.SecurityContext(
                name=target,
                creds=self._credentials(),
                mech=gssapi.MechType.kerberos,
                flags=flags,
                usage="initiate",
            )
            token = self._context.step()
        except GSSError as problem:
            raise self._refused("no ticket for the broker", problem) from None
        self._next = "context"
        return token or b""

    def respond(self, challenge: bytes) -> bytes | None:
        """Return tokens of the security context, then the choice of no security layer, then None."""
        from gssapi.raw.misc import GSSError

        expected, self._next = self._next, "nothing"
        context = self._context
        try:
            if expected == "context" and context is not None and not context.complete:
                token = context.step(challenge)
                if context.complete:
                    self._check_mutual(context)
                self._next = "layers" if context.complete else "context"
                return token or b""
            if expected == "layers" and context is not None:
                response = self._choose_layer(context, context.unwrap(challenge).message)
                self._next = "end"
                return response
        except GSSError as problem:
            raise self._refused("the broker's token was rejected", problem) from None
        if expected == "end" and not challenge:
            return None
        raise AuthenticationError("the broker sent an unexpected SASL/GSSAPI message")

    def _credentials(self) -> gssapi.Credentials | None:
        import gssapi

        name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal) if self._principal else None
        if self._keytab is not None:
            store: dict[str | bytes, str | bytes] = {"client_keytab": self._keytab, "ccache": self._cache}
            return gssapi.Credentials(name=name, usage="initiate", store=store)
        return gssapi.Credentials(name=name, usage="initiate") if name else None

    def _check_mutual(self, context: gssapi.SecurityContext) -> None:
        import gssapi

        if not context.actual_flags & gssapi.RequirementFlag.mutual_authentication:
            raise AuthenticationError("the broker did not prove its identity (no mutual authentication)")

    def _choose_layer(self, context: gssapi.SecurityContext, offer: bytes) -> bytes:
        if len(offer) != _LAYERS_BYTES:
            raise AuthenticationError(f"the broker offered security layers in {len(offer)} bytes instead of 4")
        if not offer[0] & AUTH_ONLY:
            raise AuthenticationError(
                "the broker demands a SASL layer for integrity or confidentiality, which Kafka does not have: use TLS"
            )
        # No layer, so no buffer size; no authorization id.
        message: bytes = context.wrap(bytes((AUTH_ONLY, 0, 0, 0)), encrypt=False).message
        return message

    def _refused(self, what: str, problem: GSSError) -> AuthenticationError:
        """Return an error with the text of Kerberos, without its tokens."""
        return AuthenticationError(
            f"SASL/GSSAPI with {self._target!r} failed, {what}: {' '.join(problem.gen_message().split())}"
        )
