"""`security.key_material`: the keys and certificates in files and texts that options name, and the errors of wrong
ones, in the native I/O thread's TLS and in Python's.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    load_pem_private_key,
    pkcs12,
)

from kafwire.config import ClientConfig
from kafwire.errors import ConfigError
from kafwire.secret import Secret
from kafwire.security import _tls, key_material
from kafwire.security import tls as tls_module
from kafwire.security.key_material import KeyMaterial
from kafwire.security.tls import Tls
from kafwire.testing.cluster.kafka import java
from tests.support.certificates import Authority, Identity, mismatched

CA = Authority.new()
OWN = CA.intermediate().issue(name="client")
PASSWORD = "swordfish-1"
WRONG = "swordfish-2"


@pytest.fixture(params=["native", "python"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The implementation of TLS."""
    if request.param == "python":
        monkeypatch.setenv(tls_module.VARIABLE, "python")
    return str(request.param)


@pytest.fixture(params=["libcrypto", "cryptography"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The reader of PKCS#12."""
    if request.param == "cryptography":
        monkeypatch.setattr(_tls, "read_pkcs12", absent)
    return str(request.param)


def absent(data: bytes, password: bytes) -> Any:
    """An interpreter has its libcrypto inside of itself, where nothing can be bound."""
    del data, password
    raise LookupError("no shared libcrypto")


def config(**options: Any) -> ClientConfig:
    given = {"security_protocol": "SSL", "bootstrap_servers": "h:1", **options}
    return ClientConfig.build({name: str(value) if isinstance(value, Path) else value for name, value in given.items()})


def load(**options: Any) -> KeyMaterial:
    return key_material.load(config(**options))


def refusal(act: Callable[..., object], **options: Any) -> str:
    """The error, which has no password."""
    with pytest.raises(ConfigError) as caught:
        act(**options)
    said = str(caught.value)
    assert PASSWORD not in said
    assert WRONG not in said
    return said


def make(**options: Any) -> Tls:
    return Tls(config(**options))


def certificates(pem: bytes | None) -> list[x509.Certificate]:
    assert pem is not None
    return x509.load_pem_x509_certificates(pem)


def numbers(key: Secret | None) -> Any:
    assert key is not None
    loaded: Any = load_pem_private_key(key.reveal().encode(), None)
    return loaded.private_numbers()


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def ways(identity: Identity, folder: Path, password: str | None = None) -> dict[str, dict[str, Any]]:
    """All ways to give a client its certificate and its key as PEM; with a password the key is encrypted."""
    files = identity.write(folder, "client", password=password)
    key = identity.key_pem(password).decode()
    return {
        "texts": {"ssl_certificate_pem": identity.chain_pem.decode(), "ssl_key_pem": key},
        "files": {"ssl_certificate_location": files.certificate, "ssl_key_location": files.key},
        "a keystore": {"ssl_keystore_location": files.both},
    }


WAYS = ("texts", "files", "a keystore")


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("way", WAYS)
def test_each_way_to_give_a_key(tmp_path: Path, way: str) -> None:
    given = ways(OWN, tmp_path)[way]
    found = load(**given)
    assert certificates(found.certificates) == [OWN.certificate, *OWN.between]
    assert numbers(found.key) == OWN.key.private_numbers()
    make(**given)


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("way", WAYS)
def test_a_key_that_is_another_certificate_s(tmp_path: Path, way: str) -> None:
    said = refusal(make, **ways(mismatched(CA), tmp_path)[way])
    assert said.startswith("the private key is not that of the certificate")


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("way", WAYS)
def test_the_password_of_an_encrypted_key(tmp_path: Path, way: str, kind: str) -> None:
    given = ways(OWN, tmp_path, PASSWORD)[way]
    make(**given, ssl_key_password=PASSWORD)
    assert refusal(make, **given) == "the private key is encrypted, and ssl_key_password is missing"
    # The salt is random, and one wrong password of 256 decrypts the key to bytes with a valid padding.
    said = {refusal(make, **given, ssl_key_password=f"{WRONG}{number}") for number in range(3)}
    unsaid = ", or OpenSSL does not support its encryption" if kind == "python" else ""  # Python hides the reason
    wrong = f"the private key is encrypted, and ssl_key_password is wrong{unsaid}"
    assert wrong in said <= {wrong, "the private key is encrypted, and cannot be read (unsupported)"}
    if way == "a keystore":
        make(**given, ssl_keystore_password=PASSWORD)


def openssl(folder: Path, *arguments: str) -> None:
    """Run the program, which has the algorithms of older versions."""
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=60, cwd=folder)


def legacy(folder: Path) -> dict[str, str]:
    """A key store, a trust store and a key as OpenSSL 1 and Java 8 encrypt them, by `PASSWORD`."""
    OWN.write(folder, "client")
    (folder / "key.pem").write_bytes(OWN.key_pem())
    (folder / "chain.pem").write_bytes(OWN.chain_pem)
    secret = ("-passout", f"pass:{PASSWORD}")
    openssl(folder, "pkcs12", "-export", "-legacy", "-inkey", "key.pem", "-in", "chain.pem", "-out", "old.p12", *secret)
    openssl(folder, "pkcs12", "-export", "-legacy", "-nokeys", "-in", "chain.pem", "-out", "trust.p12", *secret)
    providers = ("-provider", "legacy", "-provider", "default")
    openssl(folder, "pkcs8", "-topk8", "-v1", "PBE-MD5-DES", *providers, "-in", "key.pem", "-out", "old.pem", *secret)
    return {name: str(folder / name) for name in ("old.p12", "trust.p12", "old.pem", "chain.pem")}


def test_an_old_encryption_is_not_a_wrong_password(tmp_path: Path) -> None:
    """The password of each is right: OpenSSL 3 does not have RC2-40 and PBE-MD5."""
    files = legacy(tmp_path)
    stores: list[tuple[str, dict[str, Any]]] = [
        ("old.p12", {"ssl_keystore_location": files["old.p12"], "ssl_keystore_password": PASSWORD}),
        ("trust.p12", {"ssl_ca_location": files["trust.p12"], "ssl_ca_password": PASSWORD}),
    ]
    for name, options in stores:
        said = refusal(make, **options)
        assert "no longer supports its encryption" in said
        assert "wrong" not in said
        command = shlex.split(said.rpartition("\n")[2])
        openssl(tmp_path, *command[1:], "-passin", f"pass:{PASSWORD}", "-passout", f"pass:{PASSWORD}")
        converted = str(tmp_path / name.replace(".p12", ".pem"))
        make(**{option: converted if value == files[name] else value for option, value in options.items()
                if option != "ssl_ca_password"})  # fmt: skip


def test_an_old_encryption_of_a_pem_key_is_not_a_wrong_password(tmp_path: Path) -> None:
    files = legacy(tmp_path)
    given = {"ssl_certificate_location": files["chain.pem"], "ssl_key_password": PASSWORD}
    said = refusal(make, ssl_key_location=files["old.pem"], **given)
    assert "encrypted in a way that OpenSSL no longer supports" in said
    assert "password" not in said
    text = said.rpartition("\n")[2].replace("KEY", files["old.pem"]).replace("NEW", str(tmp_path / "new.pem"))
    openssl(tmp_path, *shlex.split(text)[1:], "-passin", f"pass:{PASSWORD}", "-passout", f"pass:{PASSWORD}")
    make(ssl_key_location=str(tmp_path / "new.pem"), **given)


@pytest.mark.usefixtures("kind")
def test_a_damaged_key_is_not_a_wrong_password(tmp_path: Path) -> None:
    lines = OWN.key_pem(PASSWORD).decode().splitlines()
    text = "\n".join([*lines[:4], *lines[-1:], ""])
    said = refusal(make, ssl_certificate_pem=OWN.chain_pem.decode(), ssl_key_pem=text, ssl_key_password=PASSWORD)
    assert not said.endswith("ssl_key_password is wrong")


def test_a_store_without_a_checksum_is_not_a_wrong_password(tmp_path: Path) -> None:
    """OpenSSL reads no such store, whatever the password."""
    (tmp_path / "key.pem").write_bytes(OWN.key_pem())
    (tmp_path / "chain.pem").write_bytes(OWN.chain_pem)
    command = ("pkcs12", "-export", "-nomac", "-inkey", "key.pem", "-in", "chain.pem", "-out", "x.p12")
    openssl(tmp_path, *command, "-passout", f"pass:{PASSWORD}")
    said = refusal(make, ssl_keystore_location=str(tmp_path / "x.p12"), ssl_keystore_password=PASSWORD)
    assert said.endswith("it cannot be read as PKCS#12 (mac absent)")


def test_the_password_of_a_pkcs12_keystore(tmp_path: Path, reader: str) -> None:
    store = written(tmp_path / "client.p12", OWN.pkcs12(PASSWORD))
    found = load(ssl_keystore_location=store, ssl_keystore_password=PASSWORD)
    assert certificates(found.certificates) == [OWN.certificate, *OWN.between]
    assert numbers(found.key) == OWN.key.private_numbers()
    for password, state in ((WRONG, "is wrong"), (None, "is missing")):
        said = refusal(load, ssl_keystore_location=store, ssl_keystore_password=password)
        assert f"ssl_keystore_location={str(store)!r}: " in said
        assert (
            f"ssl_keystore_password {state}" if reader == "libcrypto" else "is ssl_keystore_password right?"
        ) in said


@pytest.mark.usefixtures("reader")
def test_a_pkcs12_keystore_without_a_password(tmp_path: Path) -> None:
    data = pkcs12.serialize_key_and_certificates(b"x", OWN.key, OWN.certificate, None, NoEncryption())
    found = load(ssl_keystore_location=written(tmp_path / "client.p12", data))
    assert certificates(found.certificates) == [OWN.certificate]
    assert numbers(found.key) == OWN.key.private_numbers()


@pytest.mark.usefixtures("reader")
def test_a_pkcs12_file_that_is_damaged(tmp_path: Path) -> None:
    store = written(tmp_path / "client.p12", OWN.pkcs12(PASSWORD)[:200])
    said = refusal(load, ssl_keystore_location=store, ssl_keystore_password=PASSWORD)
    assert f"ssl_keystore_location={str(store)!r}: " in said


@pytest.mark.usefixtures("kind")
def test_pkcs12_as_a_truststore(tmp_path: Path, reader: str) -> None:
    """The truststore has certificates only, as `keytool -importcert` makes it."""
    other = Authority.new("another CA")
    data = pkcs12.serialize_key_and_certificates(
        None, None, None, [CA.certificate, other.certificate], BestAvailableEncryption(PASSWORD.encode())
    )
    store = written(tmp_path / "ca.p12", data)
    found = load(ssl_ca_location=store, ssl_ca_password=PASSWORD)
    assert sorted(each.subject.rfc4514_string() for each in certificates(found.trusted)) == [
        "CN=a CA of tests",
        "CN=another CA",
    ]
    make(ssl_ca_location=store, ssl_ca_password=PASSWORD)
    for password, state in ((WRONG, "is wrong"), (None, "is missing")):
        said = refusal(load, ssl_ca_location=store, ssl_ca_password=password)
        assert f"ssl_ca_location={str(store)!r}: " in said
        assert (f"ssl_ca_password {state}" if reader == "libcrypto" else "is ssl_ca_password right?") in said


def keytool(*arguments: str) -> None:
    """Run the JDK's."""
    program = Path(java()).with_name("keytool")
    subprocess.run([program, *arguments], check=True, capture_output=True, timeout=60)


@pytest.mark.usefixtures("reader")
def test_a_truststore_of_keytool_s(tmp_path: Path) -> None:
    store = tmp_path / "ca.p12"
    CA.write(tmp_path / "ca.pem")
    of_file = ("-alias", "ca", "-file", str(tmp_path / "ca.pem"), "-keystore", str(store), "-storepass", PASSWORD)
    keytool("-importcert", "-noprompt", *of_file)
    assert certificates(load(ssl_ca_location=store, ssl_ca_password=PASSWORD).trusted) == [CA.certificate]


@pytest.mark.usefixtures("reader")
def test_a_keystore_without_a_key_is_none(tmp_path: Path) -> None:
    hidden = BestAvailableEncryption(PASSWORD.encode())
    data = pkcs12.serialize_key_and_certificates(None, None, None, [CA.certificate], hidden)
    store = written(tmp_path / "ca.p12", data)
    said = refusal(load, ssl_keystore_location=store, ssl_keystore_password=PASSWORD)
    assert "there is no private key with its certificate in it" in said


def test_pkcs12_where_nothing_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_tls, "read_pkcs12", absent)
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization", None)
    store = written(tmp_path / "client.p12", OWN.pkcs12(PASSWORD))
    said = refusal(load, ssl_keystore_location=store, ssl_keystore_password=PASSWORD)
    assert "pip install cryptography" in said
    assert f"openssl pkcs12 -in {store} -out {store.with_suffix('.pem')} -nodes" in said


@pytest.mark.usefixtures("kind")
def test_a_folder_of_authorities(tmp_path: Path) -> None:
    """All its PEM files; others, and folders, are passed over."""
    folder = tmp_path / "ca"
    folder.mkdir()
    assert "there is no PEM file in this folder" in refusal(make, ssl_ca_location=folder)
    other = Authority.new("another CA")
    CA.write(folder / "a.pem")
    (folder / "README").write_text("the use of these files")
    (folder / "below").mkdir()
    given = config(ssl_ca_location=folder)
    before = key_material.paths(given)
    other.write(folder / "b.crt")
    found = key_material.load(given)
    assert certificates(found.trusted) == [CA.certificate, other.certificate]
    assert set(key_material.paths(given)) - set(before) == {folder / "b.crt"}, "it is seen that one has come"
    Tls(given)


@pytest.fixture(scope="module")
def java_keystore(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("java") / "a client.jks"
    OWN.write_jks(store, PASSWORD)
    store.with_suffix(".p12").unlink()  # what it was made from
    assert store.read_bytes().startswith(b"\xfe\xed\xfe\xed"), "Java's own format, not PKCS#12 by another name"
    return store


@pytest.mark.parametrize("option", ["ssl_ca_location", "ssl_keystore_location", "ssl_certificate_location"])
def test_a_java_keystore(java_keystore: Path, option: str) -> None:
    more = {"ssl_key_location": java_keystore} if option == "ssl_certificate_location" else {}
    said = refusal(load, **{option: java_keystore}, **more)
    assert f"option {option}={str(java_keystore)!r}: this is a Java keystore, which only Java can read" in said
    assert "\nkeytool -importkeystore -srckeystore " in said


def test_a_java_keystore_is_converted_by_the_command_in_the_error(java_keystore: Path) -> None:
    """The command runs as printed, except for the passwords for which it would prompt."""
    command = shlex.split(refusal(load, ssl_keystore_location=java_keystore).split("\n")[1])
    keytool(*command[1:], "-srcstorepass", PASSWORD, "-deststorepass", PASSWORD)
    found = load(ssl_keystore_location=java_keystore.with_suffix(".p12"), ssl_keystore_password=PASSWORD)
    assert numbers(found.key) == OWN.key.private_numbers()


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("ssl_ca_location", b"hello", "this is neither a PEM nor a PKCS#12 file"),
        ("ssl_keystore_location", b"hello", "this is neither a PEM nor a PKCS#12 file"),
        ("ssl_certificate_location", b"hello", "this is not a PEM file"),
        ("ssl_certificate_location", OWN.pkcs12(PASSWORD), "for a PKCS#12 file, set ssl_keystore_location"),
        ("ssl_certificate_location", OWN.chain_pem + b"\xff", "this is not text, but PEM is text"),
        ("ssl_ca_location", None, "No such file or directory"),
        ("ssl_crl_location", None, "No such file or directory"),
    ],
)
def test_a_file_of_another_kind(tmp_path: Path, option: str, content: bytes | None, said: str) -> None:
    path = tmp_path / "file"
    if content is not None:
        path.write_bytes(content)
    more = {"ssl_key_location": path} if option == "ssl_certificate_location" else {}
    assert re.search(f"option {option}.*{said}", refusal(load, **{option: path}, **more))


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("ends", ["\n", "\r\n", " ", ""])
def test_a_text_in_one_line(ends: str) -> None:
    """Java's users write it so."""
    text = CA.certificate.public_bytes(Encoding.PEM).decode()
    text = ends.join(text.splitlines())
    assert certificates(load(ssl_ca_pem=text).trusted) == [CA.certificate]
    make(ssl_ca_pem=text)
