"""The fuzz targets hold for some thousand executions, what was once found stays mended, and the runners find
planted mistakes. The native targets, and the test of what runs them (`tests/fuzz`), belong to `make fuzz`.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from fuzz import __main__ as fuzzing
from fuzz import targets
from fuzz.native import build, choice, seeds
from fuzz.native import run as native
from fuzz.native.replay import REPLAY
from fuzz.targets import TARGETS, Broken
from kafwire import protocol
from kafwire.consumer.fetch._fetch import ParsedResponse, parse_response
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from scripts.tree import closure, imports_of
from tests.support.seeds import examples, of_test

ROOT = Path(__file__).resolve().parents[3]
SEED = 20130101
# of 0.7 s each
EXECUTIONS = {
    "records": 9_000,
    "fetch-responses": 60_000,
    "messages": 30_000,
    "frames": 11_000,
    "avro-values": 4_000,
    "protobuf-values": 4_000,
    "avro-columns": 2_000,
}
CASES = sorted(case for name in REPLAY for case in (native.CASES / name).glob("*"))


@pytest.mark.parametrize("name", EXECUTIONS)
def test_target_holds(name: str) -> None:
    assert fuzzing.run(name, of_test(), limit=examples(EXECUTIONS[name])) == 0


def test_every_target_is_run() -> None:
    assert set(EXECUTIONS) == set(TARGETS)


def test_an_input_names_each_version_of_each_message() -> None:
    known = choice.runs()
    for name, message in protocol.MESSAGES.items():
        for version in range(message.oldest_version, message.max_version + 1):
            found = choice.chosen(choice.head(name, version) + b"\0", known)
            assert found is not None
            assert (found[0].message, found[1]) == (message, version)


class Escaping:
    """A decoder that lets an IndexError out."""

    def corpus(self) -> Sequence[bytes]:
        return [bytes(40)]

    def check(self, data: bytes, chance: random.Random) -> None:
        if len(data) < 40:
            raise IndexError("index out of range")
        if data[0]:
            raise Broken("the first byte is not zero")


def test_an_escaped_exception_is_found_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "escaping", Escaping())
    monkeypatch.setattr(fuzzing, "FINDS", tmp_path)
    monkeypatch.setattr(fuzzing, "SLOWEST_ALLOWED_S", 60.0)
    finds = fuzzing.run("escaping", SEED, limit=100)
    assert finds > 1
    assert len(list(tmp_path.iterdir())) == finds
    printed = capsys.readouterr().out
    assert "IndexError escaped" in printed
    assert "the first byte is not zero" in printed


def test_seeds_of_fetch_responses_parse_in_their_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    versions: list[int] = []

    def parse(frame: Buffer, version: int) -> ParsedResponse:
        versions.append(version)
        try:
            return parse_response(frame, version)
        except ProtocolError as error:
            raise AssertionError(f"the seed of version {version}: {error}") from None

    monkeypatch.setattr(targets, "parse_response", parse)
    for seed in TARGETS["fetch-responses"].corpus():
        TARGETS["fetch-responses"].check(seed, random.Random(SEED))
    assert versions == list(targets.FETCH_VERSIONS)


def test_not_a_number_comes_back_as_itself() -> None:
    """NaN is not equal to itself; the message is right nevertheless."""
    quotas = protocol.DescribeClientQuotasResponse
    values = [quotas.ValueData(key="k", value=float("nan"))]
    message = quotas(entries=[quotas.EntryData(entity=[], values=values)])
    number = list(protocol.MESSAGES).index("DescribeClientQuotasResponse")
    TARGETS["messages"].check(bytes([number, 1]) + message.encode(1), random.Random(SEED))


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}-{case.stem}")
def test_found_cases_stay_mended(case: Path) -> None:
    REPLAY[case.parent.name](case.read_bytes())


@pytest.mark.parametrize("name", build.TARGETS)
def test_native_seeds_hold_in_the_normal_build(name: str) -> None:
    found = list(seeds.SEEDS[name]())
    assert len(found) > 10
    chance = random.Random(SEED)
    for seed in chance.sample(found, min(len(found), 40)):
        REPLAY[name](seed)


def test_native_builds_read_cython_as_setup_does() -> None:
    tree = ast.parse((ROOT / "setup.py").read_text())
    found = [
        {ast.unparse(key): ast.unparse(value) for key, value in zip(node.keys, node.values, strict=True) if key}
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict) and "boundscheck" in ast.unparse(node)
    ]
    assert len(found) == 1
    ours = {repr(key): repr(value) for key, value in build.DIRECTIVES.items()}
    assert ours.items() <= found[0].items()
    assert set(found[0]) - set(ours) == {"'embedsignature'", "'linetrace'"}


def test_each_module_a_native_target_runs_is_linked() -> None:
    modules = closure(["kafwire._codec", *imports_of("from kafwire.consumer.fetch._fetch import parse_response")])
    names = [module.name.removeprefix("kafwire.") for module in modules]
    records = [f"records.{name}" for name in ("_columns", "_compress", "_decode", "_libraries", "_message_set")]
    assert names == ["_codec", "consumer.fetch._fetch", "memory._buffer", "protocol._layout", *records]
    assert [source.name for source in build.native_sources(modules)] == ["crc32c.c", "lz4.c", "snappy.c"]


def test_a_missing_clang_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FUZZ_CC", raising=False)
    with pytest.raises(build.BuildError, match="apt-get install clang libclang-rt"):
        build.compiler()
    fake = tmp_path / "clang"
    fake.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo "Debian clang version 14.0.6"; else echo "libclang_rt.a"; fi\n'
    )
    fake.chmod(0o755)
    with pytest.raises(build.BuildError, match="libclang-rt-14-dev"):
        build.compiler()


def test_totals_add_up(tmp_path: Path) -> None:
    state = native.State(tmp_path / "state.json")
    for seed in range(3):
        with state.change("frame") as totals:
            totals.executions += 1_000_000
            totals.cpu_s += 30
            totals.seeds.append(seed)
    printed = native.table(state.read())
    assert "| frame | 3,000,000 | 1.5 min | 3 | 33,333 |" in printed
    assert "frame, varint, header and message: 3,000,000 executions" in printed
