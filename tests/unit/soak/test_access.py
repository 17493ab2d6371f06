"""How the soak's clients come to a cluster: options in each client's spelling, and how often they authenticated."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.testing import Security
from tests.soak import workers
from tests.soak.access import AUTHENTICATIONS, PLAINTEXT, RENEWALS, SASL_SSL, Access, security_of, shows_frames
from tests.soak.matrix import CONTROL, KAFWIRE

SECURED = {"bootstrap_servers": "b:1", "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512"}


def reported(accepted: int, connects: int, *, node: int = 1) -> dict[str, Any]:
    where = {"node": node, "role": "produce", "host": "b", "port": 1}
    return {"connections": [{**where, "authentications": accepted, "connects": connects}]}


def test_protocols_of_a_run() -> None:
    assert security_of(PLAINTEXT) is None
    listener = security_of(SASL_SSL)
    assert isinstance(listener, Security)
    assert (listener.protocol, listener.mechanisms) == ("SASL_SSL", ("SCRAM-SHA-512",))
    assert 0 < listener.connections_max_reauth_ms <= 15_000


def test_proxies_do_not_see_into_tls() -> None:
    assert shows_frames({KAFWIRE: {"bootstrap_servers": "b:1"}})
    assert shows_frames({KAFWIRE: {"security_protocol": "SASL_PLAINTEXT"}})
    assert not shows_frames({KAFWIRE: SECURED})
    assert not shows_frames({KAFWIRE: {"security_protocol": "SSL"}})


@pytest.mark.parametrize("plain", [{"bootstrap_servers": "b:1"}, {"bootstrap.servers": "b:1", "sasl.mechanism": "X"}])
def test_options_without_counting_are_unchanged(plain: dict[str, str]) -> None:
    assert Access(plain).options() == plain


def test_authentications_of_all_clients_are_counted() -> None:
    access = Access(SECURED)
    one, other = access.options(), access.options()
    assert {name: one[name] for name in SECURED} == SECURED
    assert access.counts == {AUTHENTICATIONS: 0, RENEWALS: 0}
    one["metrics_hook"](reported(1, 1))
    assert access.counts == {AUTHENTICATIONS: 1, RENEWALS: 0}
    one["metrics_hook"](reported(3, 1))
    one["metrics_hook"](reported(3, 1))
    assert access.counts == {AUTHENTICATIONS: 3, RENEWALS: 2}
    other["metrics_hook"](reported(5, 4))
    one["metrics_hook"](reported(2, 2, node=2))
    assert access.counts == {AUTHENTICATIONS: 10, RENEWALS: 3}


def test_a_connection_in_the_place_of_another_counts_from_its_beginning() -> None:
    access = Access(SECURED)
    hook = access.options()["metrics_hook"]
    hook(reported(7, 5))
    hook(reported(2, 1))
    assert access.counts == {AUTHENTICATIONS: 9, RENEWALS: 3}


def test_a_password_is_in_a_file_that_only_its_owner_reads(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The password is not in the command line, which `ps` shows."""
    begun: list[list[str]] = []

    def begin(command: list[str], **_: Any) -> Any:
        begun.append(command)
        return SimpleNamespace(stdout=())

    monkeypatch.setattr(workers, "subprocess", SimpleNamespace(Popen=begin, PIPE=None))
    access = {KAFWIRE: SECURED | {"sasl_password": "hunter2"}, CONTROL: {"sasl.password": "hunter2"}}
    workers.Process("kafwire", (), tmp_path, access, 1, None)
    (command,) = begun
    file = Path(command[-1])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert json.loads(file.read_text())["access"] == access
    assert "hunter2" not in " ".join(command)
