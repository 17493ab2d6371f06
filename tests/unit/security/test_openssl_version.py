"""Which OpenSSL is bound: the one of the version that the module ssl has, of those that kafwire knows.

Each case is a process. OpenSSL 4 is played by OpenSSL 3 under other names, which says another number.
"""

from __future__ import annotations

import re
import ssl
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

MAPPED = Path("/proc/self/maps").read_text() if sys.platform == "linux" else ""
LOADED = {part: path for path, part in re.findall(r"(/\S+/lib(ssl|crypto)\.so\.3)$", MAPPED, re.MULTILINE)}
pytestmark = pytest.mark.skipif(len(LOADED) != 2 or ssl.OPENSSL_VERSION_INFO[0] != 3, reason="a shared libssl 3")

PLAY = """
import ctypes, ssl, sys
from kafwire.security.tls import described
from kafwire.config import ClientConfig
from kafwire.security.tls import Tls
version = int(sys.argv[1])
kept = [ctypes.CDLL(path, mode=ctypes.DEFAULT_MODE) for path in sys.argv[2:]]
ssl.OPENSSL_VERSION_INFO = (version, 0, 0, 0, 0)
print(described())
Tls(ClientConfig.build({"security_protocol": "SSL", "bootstrap_servers": "h:1"})).source("localhost", 1)
"""


def play(version: int, *libraries: Path) -> str:
    command = [sys.executable, "-W", "error", "-c", PLAY, str(version), *map(str, libraries)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def named(folder: Path, part: str, name: str, code: str) -> Path:
    """A library of that name which has the symbols of OpenSSL 3's, and the code's before them."""
    (folder / "some.c").write_text(code)
    command = [*sysconfig.get_config_var("CC").split(), "-shared", "-fPIC", "-o", name, "some.c", f"-Wl,-soname,{name}"]
    subprocess.run([*command, "-Wl,--no-as-needed", LOADED[part]], cwd=folder, check=True)
    return folder / name


def openssl(folder: Path, version: int, says: int) -> list[Path]:
    number = f"unsigned long OpenSSL_version_num(void) {{ return {says}UL << 28; }}\n"
    return [
        named(folder, "crypto", f"libcrypto.so.{version}", number),
        named(folder, "ssl", f"libssl.so.{version}", "int none;\n"),
    ]


def test_openssl_3_is_bound() -> None:
    assert re.fullmatch(r"OpenSSL 3\..*, in the I/O thread", play(3))


def test_openssl_4_is_bound_where_python_has_it(tmp_path: Path) -> None:
    assert play(4, *openssl(tmp_path, 4, 4)).endswith(", in the I/O thread")


def test_openssl_4_is_not_replaced_by_a_3_beside_it() -> None:
    assert play(4).endswith("under the GIL: this interpreter's module ssl has not loaded a shared libssl 4")


def test_a_library_that_is_another_version_than_its_name_is_not_bound(tmp_path: Path) -> None:
    reported = play(4, *openssl(tmp_path, 4, 3))
    assert reported.endswith("under the GIL: the libssl 4 that is loaded is another version of OpenSSL")


def test_an_unknown_version_is_not_bound(tmp_path: Path) -> None:
    reported = play(5, *openssl(tmp_path, 5, 5))
    assert reported.endswith("under the GIL: this interpreter's module ssl has OpenSSL 5, kafwire knows 3 to 4")
