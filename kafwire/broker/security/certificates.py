"""The certificates of a test cluster: a CA, one for the nodes, one for a client, as PEM files of one folder."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafwire.broker.setup_error import SetupError

if TYPE_CHECKING:
    import trustme

__all__ = ["HOSTS", "Certificates", "make_certificates", "write_private"]

HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Certificates:
    """The files of a cluster's certificates and keys. Keys are PKCS#8 without a password.

    Example:
        >>> secured.security.certificates.ca_pem.read_text().splitlines()[0]
        '-----BEGIN CERTIFICATE-----'
    """

    folder: Path

    @property
    def ca_pem(self) -> Path:
        """The CA's certificate, which clients trust."""
        return self.folder / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """The CA's private key, for tests that issue more certificates."""
        return self.folder / "ca-key.pem"

    @property
    def server_pem(self) -> Path:
        """Private key and certificate of the nodes, in one file."""
        return self.folder / "server.pem"

    @property
    def client_certificate(self) -> Path:
        """A client's certificate; its user is `client`."""
        return self.folder / "client-certificate.pem"

    @property
    def client_key(self) -> Path:
        """The private key of that client."""
        return self.folder / "client-key.pem"

    @property
    def client_pem(self) -> Path:
        """Private key and certificate of that client, in one file, as Java needs them."""
        return self.folder / "client.pem"

    def ca(self) -> "trustme.CA":
        """Return the CA, to issue more certificates.

        Returns:
            trustme's CA.

        Raises:
            SetupError: trustme is missing; `kafwire[testing]` installs it.
        """
        try:
            import trustme
        except ImportError as error:
            raise SetupError("the CA for tests needs the package trustme: pip install 'kafwire[testing]'") from error
        return trustme.CA.from_pem(self.ca_pem.read_bytes(), self.ca_key.read_bytes())


def make_certificates(folder: Path, hosts: Iterable[str] = ()) -> Certificates:
    """Create a CA and its certificates in a folder; that of the nodes is for `HOSTS`, and for `hosts` too.

    Raises `SetupError` without the package cryptography.
    """
    try:
        from kafwire.broker.security.certificate_authority import Authority
    except ImportError as error:
        raise SetupError("certificates need the package cryptography: pip install 'kafwire[broker]'") from error
    ca = Authority()
    made = Certificates(folder)
    server = ca.issue("localhost", dict.fromkeys([*HOSTS, *hosts]))
    client = ca.issue("client", ["client@kafwire.test"])
    made.ca_pem.write_bytes(ca.certificate)
    write_private(made.ca_key, ca.key)
    write_private(made.server_pem, server.key + server.certificate)
    write_private(made.client_pem, client.key + client.certificate)
    write_private(made.client_key, client.key)
    made.client_certificate.write_bytes(client.certificate)
    return made


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
