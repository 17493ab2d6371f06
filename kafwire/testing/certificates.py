"""The certificates of a test cluster: a CA, one for the nodes, one for a client, as PEM files of one folder."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafwire.testing.kafka import SetupError

if TYPE_CHECKING:
    import trustme

__all__ = ["HOSTS", "Certificates", "make_certificates", "write_private"]

HOSTS = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Certificates:
    """Where a cluster's certificates and keys are. Keys are PKCS#8 without a password.

    Example:
        >>> secured.security.certificates.ca_pem.read_text().splitlines()[0]
        '-----BEGIN CERTIFICATE-----'
    """

    folder: Path

    @property
    def ca_pem(self) -> Path:
        """The CA's certificate: what clients trust."""
        return self.folder / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """The CA's private key, for tests that make more certificates."""
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
        """Private key and certificate of that client, in one file, as Java wants them."""
        return self.folder / "client.pem"

    def ca(self) -> "trustme.CA":
        """The CA, to make more certificates with.

        Returns:
            trustme's CA.
        """
        return _authority().from_pem(self.ca_pem.read_bytes(), self.ca_key.read_bytes())


def make_certificates(folder: Path) -> Certificates:
    """Make a CA and its certificates in a folder. Raises `SetupError` without trustme."""
    ca = _authority()(organization_name="kafwire test cluster")
    made = Certificates(folder)
    server = ca.issue_cert(*HOSTS, common_name="localhost")
    client = ca.issue_cert("client@kafwire.test", common_name="client")
    ca.cert_pem.write_to_path(made.ca_pem)
    write_private(made.ca_key, _pkcs8(ca.private_key_pem.bytes()))
    for leaf, combined in ((server, made.server_pem), (client, made.client_pem)):
        chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
        write_private(combined, _pkcs8(leaf.private_key_pem.bytes()) + chain)
    write_private(made.client_key, _pkcs8(client.private_key_pem.bytes()))
    made.client_certificate.write_bytes(b"".join(blob.bytes() for blob in client.cert_chain_pems))
    return made


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner may read."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)


def _pkcs8(key: bytes) -> bytes:
    """A private key as Java reads it; trustme writes OpenSSL's older form."""
    from cryptography.hazmat.primitives import serialization as forms

    loaded = forms.load_pem_private_key(key, None)
    return loaded.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())


def _authority() -> "type[trustme.CA]":
    try:
        import trustme
    except ImportError as error:
        raise SetupError("certificates are made by trustme: pip install 'kafwire[testing]'") from error
    return trustme.CA
