"""The suites: the version of their sources, and the tests that they name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from scripts.foreign_suites.__main__ import SUITES
from scripts.foreign_suites.go_suites import _functional
from scripts.foreign_suites.left_out import LeftOut
from scripts.foreign_suites.librdkafka import _chosen, _failed, _of_number
from scripts.foreign_suites.outcomes import Outcome
from scripts.foreign_suites.running import SuiteError
from scripts.foreign_suites.suite import Request, Suite

BY_NAME = {suite.name: suite for suite in SUITES}
FILES = {
    "aiokafka": ("aiokafka/__init__.py", '__version__ = "0.14.0"\n', "0.14.0"),
    "confluent-kafka": ("pyproject.toml", '[project]\nname = "confluent-kafka"\nversion = "2.15.0"\n', "2.15.0"),
    "kafka-python": ("kafka/version.py", "__version__ = '3.0.12'\n", "3.0.12"),
    "kgo": ("CHANGELOG.md", "v1.22.3\n===\n\ntext about v1.22.2\n\nv1.22.2\n===\n", "1.22.3"),
    "librdkafka": ("src/rdkafka.h", "#define RD_KAFKA_VERSION  0x020f01ff\n", "2.15.1"),
}


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return folder


@pytest.mark.parametrize("name", FILES)
def test_sources_have_their_version(tmp_path: Path, name: str) -> None:
    file, text, version = FILES[name]
    assert BY_NAME[name].version(written(tmp_path, file, text)) == version


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.name)
def test_a_folder_without_the_suite_is_refused(tmp_path: Path, suite: Suite) -> None:
    with pytest.raises(SuiteError, match="does not have the suite's sources"):
        suite.version(tmp_path)


def test_sarama_has_the_version_of_its_folder_or_tag(tmp_path: Path) -> None:
    test = "func TestFuncA(t *testing.T) {\n"
    version = BY_NAME["sarama"].version
    assert version(written(tmp_path / "sarama@v1.60.1", "functional_a_test.go", test)) == "1.60.1"
    checkout = written(tmp_path / "sarama", "functional_a_test.go", test)
    with pytest.raises(SuiteError, match="name the folder sarama-VERSION"):
        version(checkout)
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.com", "-c", "commit.gpgsign=false"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"], ["tag", "v1.60.0"]):
        subprocess.run(["git", *identity, *command], cwd=checkout, check=True, capture_output=True)
    assert version(checkout) == "1.60.0"


def test_sarama_tests_are_those_of_its_functional_files(tmp_path: Path) -> None:
    text = "func TestMain(m *testing.M) {\nfunc TestB(t *testing.T) {\nfunc helper(t *testing.T) {\n"
    written(tmp_path, "functional_b_test.go", text)
    written(tmp_path, "functional_a_test.go", "func TestA(t *testing.T) {\n")
    written(tmp_path, "unit_test.go", "func TestC(t *testing.T) {\n")
    assert _functional(tmp_path) == ["TestA", "TestB"]


@pytest.mark.parametrize(("only", "chosen"), [("", ["0103", "0001"]), ("0001,0081", ["0001"])])
def test_librdkafka_runs_the_chosen_numbers_but_those_that_must_not_run(
    tmp_path: Path, only: str, chosen: list[str]
) -> None:
    left_out = [LeftOut("0081_admin", "it hangs", "never"), LeftOut("0103_transactions", "it fails")]
    request = Request(tmp_path, tmp_path, left_out, "python", only, 60)
    assert _chosen(request, ["0001", "0081", "0103"]) == chosen


def test_librdkafka_repeats_numbers_with_a_failed_test_that_is_not_left_out(tmp_path: Path) -> None:
    request = Request(tmp_path, tmp_path, [LeftOut("0103_transactions", "it fails")], "python", "", 60)
    failed, passed = Outcome.FAILED, Outcome.PASSED
    outcomes = {"0055_latency": failed, "0055_latency_local": failed, "0081_admin": passed, "0103_transactions": failed}
    assert _failed(request, outcomes) == ["0055"]


def test_a_librdkafka_test_without_an_outcome_fails() -> None:
    names = ["0055_latency", "0055_latency_local", "0081_admin"]
    found = _of_number("0055", names, {"0055_latency": Outcome.PASSED})
    assert found == {"0055_latency": Outcome.PASSED, "0055_latency_local": Outcome.FAILED}
