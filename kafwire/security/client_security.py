"""The security of one client: TLS for its connections, and its login."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.config import ClientConfig
    from kafwire.security.login import Login
    from kafwire.security.tls import Tls


class ClientSecurity:
    """Holds `tls` and `login` of one client, for all its connections; each is None if it is not configured.

    Raises:
        ConfigError: a file cannot be read, or a package that the mechanism needs is not installed.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.tls: Tls | None = None
        self.login: Login | None = None
        # Imported here, in the thread that creates the client, and only for clients that need it.
        if config.has_tls:
            from kafwire.security.tls import Tls

            self.tls = Tls(config)
        if config.has_sasl:
            from kafwire.security.login import Login

            self.login = Login(config, timeout_s=config.socket_connection_setup_timeout_ms / 1000)
