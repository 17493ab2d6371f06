"""The commands on a SASL_SSL cluster, by a file of options, and what `kafwire doctor` finds of one that is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafwire.testing import KafkaCluster, Security
from tests.support.certificates import Authority
from tests.support.complaints import complaints

PASSWORD = "canary-5e0d"


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    listener = Security("SASL_SSL", ["PLAIN", "SCRAM-SHA-512"], users={"alice": PASSWORD})
    with KafkaCluster(security=listener, properties={"auto.create.topics.enable": True}) as running:
        yield running


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "kafwire", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, input=given)
    assert PASSWORD not in ran.stdout + ran.stderr
    return ran


def written(folder: Path, options: dict[str, str]) -> str:
    """A file for -F."""
    path = folder / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
    return str(path)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("dialect", ["kafwire", "java"])
def test_each_command_with_a_file_of_options(
    secured: KafkaCluster, topic_name: str, tmp_path: Path, mechanism: str, dialect: Any
) -> None:
    """Java's files are taken as they are: a truststore of PEM, and JAAS."""
    file = written(tmp_path, secured.client_options("alice", mechanism, dialect=dialect))
    sent = run("produce", "-t", topic_name, "-F", file, given="one\ntwo\n")
    assert (sent.returncode, complaints(sent.stderr)) == (0, "")
    read = run("consume", topic_name, "-e", "-u", "-F", file)
    assert (read.returncode, read.stdout, complaints(read.stderr)) == (0, "one\ntwo\n", "")
    listed = run("topics", "--names", "-F", file)
    assert (listed.returncode, complaints(listed.stderr)) == (0, "")
    assert topic_name in listed.stdout.splitlines()


def test_a_command_by_options_of_its_own(secured: KafkaCluster, tmp_path: Path) -> None:
    """-X has the settings that are no secret, and takes precedence over the file, which has the password."""
    given = secured.client_options("alice", "SCRAM-SHA-512")
    file = written(tmp_path, {"sasl.password": given.pop("sasl.password"), "security.protocol": "SSL"})
    servers = given.pop("bootstrap.servers")
    assert given["security.protocol"] == "SASL_SSL"
    settings = [word for name, value in given.items() for word in ("-X", f"{name}={value}")]
    listed = run("topics", "-b", servers, "-F", file, *settings)
    assert (listed.returncode, complaints(listed.stderr)) == (0, "")
    plain = run("topics", "-b", servers, "-X", "security.protocol=PLAINTEXT", "--timeout", "2")
    assert plain.returncode == 1
    assert "the server speaks TLS" in plain.stderr
    wrong = run("topics", "-b", servers, "-X", "security.protocol=TLS")
    assert wrong.returncode == 2
    assert "security.protocol" in wrong.stderr
    assert "allowed: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in " ".join(wrong.stderr.split())


def findings(server: str, *arguments: str) -> list[dict[str, Any]]:
    ran = run("doctor", server, "-J", *arguments)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert ran.returncode == int(not all(finding["ok"] for finding in found))
    return found


def test_doctor_of_a_cluster_that_is_well(secured: KafkaCluster, tmp_path: Path) -> None:
    file = written(tmp_path, secured.client_options("alice", "SCRAM-SHA-512"))
    found = findings(secured.bootstrap, "-F", file)
    assert all(finding["ok"] for finding in found)
    security = found[2]
    assert security["step"] == "security"
    assert security["seen"].startswith("SASL_SSL: TLS by ")
    assert security["seen"].endswith("accepted by SCRAM-SHA-512 as 'alice'")
    assert [finding["step"] for finding in found][-3:] == ["topic", "record", "deletion"]


@pytest.mark.parametrize(
    ("change", "step", "said"),
    [
        ({"sasl.password": "wrong"}, "security", "refused"),
        ({"ssl.ca.location": "OTHER"}, "security", "the certificate of the broker is not accepted"),
        (
            {"security.protocol": "PLAINTEXT"},
            "protocol",
            "the server speaks TLS): set security_protocol=SSL, or SASL_SSL",
        ),
        ({"sasl.mechanism": "SCRAM-SHA-256"}, "security", "does not offer sasl_mechanism=SCRAM-SHA-256"),
        ({"ssl.ca.location": "/nowhere"}, "options", "No such file"),
    ],
    ids=["password", "certificate", "plaintext", "mechanism", "file"],
)
def test_doctor_names_the_wrong_setting(
    secured: KafkaCluster, tmp_path: Path, change: dict[str, str], step: str, said: str
) -> None:
    options = secured.client_options("alice", "SCRAM-SHA-512") | change
    if options["ssl.ca.location"] == "OTHER":
        options["ssl.ca.location"] = str(Authority.new().write(tmp_path / "other.pem"))
    if options["security.protocol"] == "PLAINTEXT":
        options = {"security.protocol": "PLAINTEXT"}
    last = findings(secured.bootstrap, "-F", written(tmp_path, options))[-1]
    assert (last["step"], last["ok"]) == (step, False)
    assert said in last["seen"]
    assert last["change"]
