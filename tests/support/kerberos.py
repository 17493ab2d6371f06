"""A KDC of MIT Kerberos in a folder of its own, at free ports: principals, keytabs and tickets for tests."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from tests.support.deadlines import PATIENCE_S, until

# Programs of Debian's packages krb5-kdc, krb5-admin-server and krb5-user; the first three are not on every PATH.
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_ATTEMPTS = 5
MISSING = "no MIT Kerberos here: install the Debian packages krb5-kdc, krb5-admin-server and krb5-user"


def installed() -> bool:
    """True if all programs of a KDC are there."""
    return all(shutil.which(program, path=_PATH) for program in _PROGRAMS)


def needed() -> None:
    """Skip the test module where there is no KDC, or no `gssapi`: an extra of kafwire's."""
    if not installed():
        pytest.skip(MISSING, allow_module_level=True)
    pytest.importorskip("gssapi", exc_type=ImportError)


class Kdc:
    """A realm, while the context lasts. Programs find it by `environment`, this process by `entered`.

    Args:
        realm: its name.
        host: the name that brokers have in it, as in `kafka/localhost`.
    """

    def __init__(self, realm: str = "KAFWIRE.TEST", host: str = "localhost") -> None:
        self.realm = realm
        self.host = host
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="kafwire-kdc-")
        self.folder = Path(self._scratch.name)
        self.krb5_conf = self.folder / "krb5.conf"
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def _start(self) -> None:
        self.port = _free_port()
        self._write_files()
        self.run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master")
        for _ in range(_ATTEMPTS):
            if self._listens():
                return
            self.port = _free_port()  # another process was quicker
            self._write_files()
        raise AssertionError((self.folder / "krb5kdc.out").read_text() + self.log())

    def _listens(self) -> bool:
        """Start the KDC, and wait until it says that it has begun; False: it has ended instead."""
        (self.folder / "krb5kdc.log").unlink(missing_ok=True)
        with (self.folder / "krb5kdc.out").open("wb") as said:
            process = self._process = subprocess.Popen(
                [_program("krb5kdc"), "-n", "-r", self.realm], env=self._all(), stdout=said, stderr=said
            )
        until(lambda: process.poll() is not None or "commencing operation" in self.log(), "the KDC begins")
        return process.poll() is None

    def _stop(self) -> None:
        if self._process is not None:
            if self._process.poll() is None:
                self._process.terminate()
            self._process.wait(timeout=PATIENCE_S)
            self._process = None
        self._scratch.cleanup()

    def _write_files(self) -> None:
        """The library's configuration, and the KDC's."""
        self.krb5_conf.write_text(
            f"""[libdefaults]
    default_realm = {self.realm}
    dns_lookup_kdc = false
    dns_lookup_realm = false
    dns_canonicalize_hostname = false
    rdns = false
    udp_preference_limit = 1
    default_ccache_name = FILE:{self.folder}/ccache

[realms]
    {self.realm} = {{
        kdc = 127.0.0.1:{self.port}
    }}

[domain_realm]
    {self.host} = {self.realm}
"""
        )
        (self.folder / "kdc.conf").write_text(
            f"""[kdcdefaults]
    kdc_listen = 127.0.0.1:{self.port}
    kdc_tcp_listen = 127.0.0.1:{self.port}

[realms]
    {self.realm} = {{
        database_name = {self.folder}/principal
        key_stash_file = {self.folder}/stash
        acl_file = {self.folder}/kadm5.acl
        max_life = 1h
        supported_enctypes = aes256-cts:normal aes128-cts:normal
    }}

[logging]
    kdc = FILE:{self.folder}/krb5kdc.log
"""
        )

    @property
    def environment(self) -> dict[str, str]:
        """The environment by which programs find this realm, and no other's tickets."""
        return {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder}/ccache",
            "KRB5RCACHETYPE": "none",
        }

    def _all(self) -> dict[str, str]:
        return {**os.environ, **self.environment}

    @contextlib.contextmanager
    def entered(self, **more: str) -> Iterator[None]:
        """Kerberos' libraries of this process find this realm."""
        with environment({**self.environment, **more}):
            yield

    def run(self, program: str, *arguments: str, said: str = "") -> str:
        """Run a program of Kerberos in this realm."""
        done = subprocess.run(
            [_program(program), *arguments],
            env=self._all(),
            input=said,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
        return done.stdout

    def service(self, name: str = "kafka") -> str:
        """The principal of a service at `host`."""
        return f"{name}/{self.host}@{self.realm}"

    def principal(self, name: str, password: str | None = None) -> str:
        """Make a principal, with a password or a random key; its full name."""
        full = name if "@" in name else f"{name}@{self.realm}"
        key = ["-randkey"] if password is None else ["-pw", password]
        self.run("kadmin.local", "-r", self.realm, "addprinc", *key, full)
        return full

    def keytab(self, principal: str) -> Path:
        """A file with the key of a principal, which is made if there is none."""
        full = principal if "@" in principal else f"{principal}@{self.realm}"
        path = self.folder / f"{full.replace('/', '_')}.keytab"
        if not path.exists():
            if full not in self.run("kadmin.local", "-r", self.realm, "listprincs").split():
                self.principal(full)
            self.run("kadmin.local", "-r", self.realm, "ktadd", "-norandkey", "-k", str(path), full)
        return path

    def kinit(self, principal: str, password: str) -> Path:
        """Tickets of a principal in a cache of their own, which $KRB5CCNAME may name."""
        cache = self.folder / f"{principal.replace('/', '_')}.ccache"
        self.run("kinit", "-c", str(cache), principal, said=f"{password}\n")
        return cache

    def log(self) -> str:
        """The text that the KDC has written."""
        path = self.folder / "krb5kdc.log"
        return path.read_text() if path.exists() else ""


@contextlib.contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """The environment of this process, changed for a while."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    assert found is not None, MISSING
    return found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port
