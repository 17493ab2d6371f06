"""The command as a process: pipes, exit codes, what an import costs; and the commands that need no input."""

import importlib.metadata
import json
import os
import platform
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafwire
from kafwire._codec import crc32c_implementations
from kafwire.cli import main
from kafwire.protocol import MESSAGES, MetadataRequest, encode_request
from kafwire.records import encode_batch

REQUEST = encode_request(MetadataRequest(), 12, 7, "me")
COMMAND = [sys.executable, "-m", "kafwire"]


def run(*arguments: str, data: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*COMMAND, *arguments], input=data, capture_output=True, check=False, timeout=60)


def test_a_pipe() -> None:
    ran = run("decode", data=REQUEST)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert json.loads(ran.stdout)["api"] == "Metadata"
    assert ran.stdout.count(b"\n") == 1


def test_text_is_utf_8_whatever_the_locale() -> None:
    request = encode_request(MetadataRequest(), 1, 7, "größer")
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run([*COMMAND, "decode"], input=request, capture_output=True, check=True, env=environment)
    assert '"clientId":"größer"' in ran.stdout.decode()


def test_a_word_longer_than_a_file_name_is_utf_8_whatever_the_locale() -> None:
    word = "ö" * 200
    environment = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = subprocess.run([*COMMAND, "messages", word], capture_output=True, check=False, env=environment)
    assert (ran.returncode, "File name too long" in ran.stderr.decode()) == (2, False)
    assert word in ran.stderr.decode()


def test_codes_and_errors_of_a_process() -> None:
    failed = run("decode", "7fff00000000000500016dff")
    assert failed.returncode == 1
    assert failed.stderr == b"kafwire: the request at byte 0: no API has the key 32767\n"
    assert json.loads(failed.stdout)["hex"] == "7fff00000000000500016dff"
    wrong = run("decod")
    assert (wrong.returncode, wrong.stdout) == (2, b"")
    assert wrong.stderr == b"kafwire: no such command 'decod'; did you mean 'decode'? (see 'kafwire --help')\n"
    missing = run("decode", "--log", "no-such-file.log")
    assert (missing.returncode, missing.stderr) == (1, b"kafwire: no-such-file.log: No such file or directory\n")
    alone = run()
    assert (alone.returncode, alone.stdout) == (2, b"")
    assert alone.stderr.startswith(b"Usage: kafwire ")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    file.write_bytes(encode_batch([b"x" * 100] * 1000) * 100)
    process = subprocess.Popen(
        [*COMMAND, "decode", "--records", str(file)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    assert json.loads(process.stdout.readline())["offset"] == 0
    process.stdout.close()
    assert process.wait(60) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.mark.parametrize(
    "arguments",
    [["decode", REQUEST.hex()], ["info", "--json"], ["messages"], ["--help"], ["--version"], ["decode", "--help"]],
    ids=" ".join,
)
def test_a_reader_that_was_never_there(arguments: list[str]) -> None:
    """The output is small enough to wait in the buffer until the end."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ran = subprocess.run([*COMMAND, *arguments], stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert (ran.returncode, ran.stderr) == (141, b"")


def test_a_full_disk() -> None:
    for arguments in (["decode", REQUEST.hex()], ["info", "--json"], ["--version"]):
        with Path("/dev/full").open("wb") as full:
            ran = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, check=False)
        assert ran.returncode == 1
        assert ran.stderr == b"kafwire: [Errno 28] No space left on device\n"


@pytest.mark.parametrize("arguments", ["info", "--version", "topics -b 127.0.0.1:1"])
def test_no_standard_output(arguments: str) -> None:
    ran = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -m kafwire {arguments} >&-', sys.executable], stderr=subprocess.PIPE, check=False
    )
    assert (ran.returncode, ran.stderr) == (1, b"kafwire: standard output is closed\n")


def test_ctrl_c(tmp_path: Path) -> None:
    """While it waits for more of a log, what there is has been written."""
    process = subprocess.Popen(
        [*COMMAND, "decode", "--log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(encode_batch([b"a"]))
    process.stdin.flush()
    assert json.loads(process.stdout.readline())["count"] == 1
    process.send_signal(signal.SIGINT)
    try:
        out, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, errors) == (130, b"", b"")


def test_imports_of_help_and_version() -> None:
    program = (
        "import sys\n"
        "from kafwire.cli import main\n"
        "try: main([{!r}], prog_name='kafwire')\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, *sorted(sys.modules), file=sys.stderr)"
    )
    for option in ("--help", "--version"):
        ran = subprocess.run([sys.executable, "-c", program.format(option)], capture_output=True, text=True, check=True)
        code, *modules = ran.stderr.split()
        assert code == "0"
        unwanted = {
            "asyncio",
            "pyarrow",
            "ssl",
            "kafwire.protocol",
            "kafwire.runtime",
            "kafwire.cluster",
            "kafwire.testing",
            "kafwire._codec",
        }
        assert not unwanted & set(modules)


def test_version() -> None:
    assert run("--version").stdout.decode() == f"kafwire {kafwire.__version__}\n"


@pytest.mark.parametrize("name", ["consume", "decode", "fuzz", "info", "messages", "topics"])
def test_every_command_has_help(name: str) -> None:
    listed = CliRunner().invoke(main, ["--help"], prog_name="kafwire").stdout
    assert re.search(rf"^  {name} ", listed, re.MULTILINE)
    result = CliRunner().invoke(main, [name, "-h"], prog_name="kafwire")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: kafwire {name} ")


def test_info() -> None:
    shown = json.loads(CliRunner().invoke(main, ["info", "--json"]).stdout)
    assert shown["versions"]["kafwire"] == kafwire.__version__
    assert shown["protocol"]["messages"] == len(MESSAGES)
    assert {"crc32c", "gzip", "lz4", "snappy", "zstd"} <= shown["nativeCode"].keys()
    text = CliRunner().invoke(main, ["info"]).stdout
    for section, values in shown.items():
        assert f"{section}:\n" in text
        for name in values:
            assert re.search(rf"^  {name} ", text, re.MULTILINE)


def test_the_output_of_info() -> None:
    shown = json.loads(CliRunner().invoke(main, ["info", "--json"]).stdout)
    assert shown["protocol"] == {
        "apis": sum(name.endswith("Request") for name in MESSAGES),
        "messages": len(MESSAGES),
        "messageVersions": sum(len(range(cls.oldest_version, cls.max_version + 1)) for cls in MESSAGES.values()),
    }
    assert shown["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert shown["versions"]["click"] == importlib.metadata.version("click")
    assert shown["nativeCode"]["crc32c"] == crc32c_implementations()[0]
    assert shown["machine"]["architecture"] == platform.machine()


@pytest.mark.parametrize(
    ("text", "features"),
    [
        ("processor : 0\nflags\t\t: fpu sse4_2 avx2 mmx\nflags : bmi2\n", ["sse4_2", "avx2"]),
        ("Features\t: fp asimd crc32 sve\n", ["crc32", "asimd", "sve"]),
        ("processor : 0\n", []),
        (None, []),
    ],
    ids=["x86", "arm", "silent", "no Linux"],
)
def test_features_of_the_processor(
    text: str | None, features: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "cpuinfo"
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr("kafwire.cli.info.Path", {"/proc/cpuinfo": file}.__getitem__)
    shown = json.loads(CliRunner().invoke(main, ["info", "--json"]).stdout)
    assert shown["machine"]["cpuFeatures"] == features
    printed = CliRunner().invoke(main, ["info"]).stdout
    assert re.search(rf"^  cpuFeatures +{' '.join(features)}$", printed, re.MULTILINE)


def test_a_package_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr("kafwire.cli.info.version", version)
    assert json.loads(CliRunner().invoke(main, ["info", "--json"]).stdout)["versions"]["lz4"] is None
    assert re.search("^  lz4 +not installed$", CliRunner().invoke(main, ["info"]).stdout, re.MULTILINE)


def test_names_of_apis() -> None:
    for name in ("Metadata", "METADATA", "3"):
        lines = CliRunner().invoke(main, ["messages", name, "--json"]).stdout.splitlines()
        assert [json.loads(line)["message"] for line in lines] == ["MetadataRequest", "MetadataResponse"], name
    for name in ("metadatarequest", "MetadataRequest"):
        (line,) = CliRunner().invoke(main, ["messages", name, "--json"]).stdout.splitlines()
        assert json.loads(line)["message"] == "MetadataRequest"
    for name in ("MetadataResponse", "metadatarequest", "3"):
        body = ["decode", "--response", "--body", "--version", "99", "--api", name, "00"]
        assert "MetadataResponse has no version 99" in CliRunner().invoke(main, body).stderr


def test_the_list_of_messages() -> None:
    text = CliRunner().invoke(main, ["messages"]).stdout
    assert re.search(r"^  3  Metadata +0-13 +9\+$", text, re.MULTILINE)
    assert re.search(r"^  -  ConsumerProtocolAssignment +0-3 +-$", text, re.MULTILINE)
    assert re.search(r"^  0  Produce +0-13 +9\+ +Kafka 4 removed 0-2$", text, re.MULTILINE)
    assert re.search(r"^  7  ControlledShutdown +0-3 +3\+ +Kafka 4 removed 0-3$", text, re.MULTILINE)
    assert re.search(r"^ 22  InitProducerId +0-6 +2\+ +version 6 is unstable$", text, re.MULTILINE)
    lines = CliRunner().invoke(main, ["messages", "--json"]).stdout.splitlines()
    listed = [json.loads(line) for line in lines]
    assert [each["message"] for each in listed] == list(MESSAGES)
    versions = {each["message"]: (each["oldestVersion"], each["minVersion"], each["maxVersion"]) for each in listed}
    assert versions["ProduceRequest"] == (0, 3, 13)
    assert versions["StopReplicaResponse"] == (0, None, 4)


def test_the_fields_of_a_message() -> None:
    text = CliRunner().invoke(main, ["messages", "MetadataRequest", "--version", "8"]).stdout
    assert text == (
        "MetadataRequest version 8 of 0 to 13\n"
        "  topics: []MetadataRequestTopic, nullable\n"
        "    name: string\n"
        "  allowAutoTopicCreation: bool, default true\n"
        "  includeClusterAuthorizedOperations: bool\n"
        "  includeTopicAuthorizedOperations: bool\n"
    )
    both = CliRunner().invoke(main, ["messages", "metadata", "--json"]).stdout.splitlines()
    assert [json.loads(line)["message"] for line in both] == ["MetadataRequest", "MetadataResponse"]
    fields = json.loads(both[0])["fields"]
    assert fields[0]["fields"][0] == {"name": "topicId", "type": "uuid", "nullable": False, "tag": None}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Metadat"], "did you mean Metadata?"),
        (["MetadataReqest"], "did you mean Metadata"),
        (["MetadatRequest"], "did you mean MetadataRequest"),
        (["3", "--version", "99"], "MetadataRequest has no version 99, it has 0 to 13"),
        (["--version", "1"], "--version needs a name"),
    ],
)
def test_messages_that_are_not_there(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(main, ["messages", *arguments], prog_name="kafwire")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_all_messages_are_shown_in_all_versions() -> None:
    for name in MESSAGES:
        for version in range(MESSAGES[name].oldest_version, MESSAGES[name].max_version + 1):
            result = CliRunner().invoke(main, ["messages", name, "--json", "--version", str(version)])
            assert result.exit_code == 0, (name, version)
            assert json.loads(result.stdout)["version"] == version
