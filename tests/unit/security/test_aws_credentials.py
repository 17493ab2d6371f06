"""AWS credentials as botocore finds them."""

from __future__ import annotations

import base64
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.security.aws_credentials import AmbientCredentials, AwsTokenProvider
from tests.support.sasl_traps import CANARY, reported


@pytest.fixture(autouse=True)
def _nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_PROFILE", "AWS_DEFAULT_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def test_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKID")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    found = AmbientCredentials()()
    assert (found.access_key, found.secret_key.reveal(), found.session_token) == ("AKID", CANARY, None)
    assert CANARY not in repr(found)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    again = AmbientCredentials()().session_token
    assert again is not None
    assert again.reveal() == "token"


def test_of_a_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text(f"[other]\naws_access_key_id = OTHER\naws_secret_access_key = {CANARY}\n")
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert AmbientCredentials()().access_key == "OTHER"


def test_there_are_none_and_then_some(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ambient = AmbientCredentials()
    with pytest.raises(AuthenticationError, match="botocore found no AWS credentials: no environment variables"):
        ambient()
    (tmp_path / "credentials").write_text(f"[default]\naws_access_key_id = A\naws_secret_access_key = {CANARY}\n")
    assert ambient().access_key == "A"


def test_a_profile_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(AuthenticationError, match="botocore found no AWS credentials: ProfileNotFound"):
        AmbientCredentials()()


class Session:
    """A session whose credentials are temporary."""

    def __init__(self, *, fails: bool = False) -> None:
        self.refreshed = 0
        self.fails = fails

    def get_credentials(self) -> Any:
        soon = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)  # so they are refreshed at each use
        return RefreshableCredentials("ASIA0", "secret", "token", soon, self._refresh, "test")

    def _refresh(self) -> dict[str, str]:
        if self.fails:
            raise ConnectionError(f"the metadata of {self.refreshed}")
        self.refreshed += 1
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=5)
        keys = {"access_key": f"ASIA{self.refreshed}", "secret_key": CANARY, "token": "t"}
        return keys | {"expiry_time": ends.isoformat()}

    def get_config_variable(self, name: str) -> str | None:
        return {"region": "eu-central-1"}.get(name)


def test_temporary_ones_are_refreshed() -> None:
    ambient = AmbientCredentials(Session())
    first, second = ambient().access_key, ambient().access_key
    assert first != second
    assert first.startswith("ASIA")


def test_refused_ones_are_looked_up_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "refused"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    file.write_text("[default]\naws_access_key_id = AKIA1\naws_secret_access_key = one\n")
    found = AmbientCredentials()
    assert found().access_key == "AKIA1"
    file.write_text("[default]\naws_access_key_id = AKIA2\naws_secret_access_key = two\n")
    assert found().access_key == "AKIA1"
    found.forget()
    assert found().access_key == "AKIA2"


def test_a_refresh_that_fails() -> None:
    with pytest.raises(AuthenticationError) as problem:
        AmbientCredentials(Session(fails=True))()
    assert CANARY not in reported(problem.value)


def test_tokens_of_a_region() -> None:
    token = AwsTokenProvider("us-east-1", Session())()
    url = base64.urlsafe_b64decode(token.value.reveal() + "===").decode()
    assert url.startswith("https://kafka.us-east-1.amazonaws.com/?Action=kafka-cluster%3AConnect&")
    stamp = url.partition("X-Amz-Date=")[2][:16]
    made = dt.datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=dt.UTC).timestamp()
    assert token.expires_at == made + 900
    assert CANARY not in f"{token!r}{url}"


def test_the_region_of_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    url = base64.urlsafe_b64decode(AwsTokenProvider(session=Session())().value.reveal() + "===")
    assert url.startswith(b"https://kafka.eu-central-1.")
    with pytest.raises(ConfigError, match="set region= or AWS_DEFAULT_REGION"):
        AwsTokenProvider()


def test_without_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(ConfigError, match=r"install kafwire\[aws\]"):
        AmbientCredentials()
