"""`sasl_mechanisms`: the one list of SASL mechanisms, and every other place that an entry needs."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import kafwire
from kafwire.broker.security.security import Security
from kafwire.config import ClientConfig
from kafwire.config.jaas import parse_jaas
from kafwire.config.sasl_mechanisms import (
    IN_KAFKA,
    MECHANISMS,
    NAMES,
    SCRAM_HASHES,
    SCRAM_NUMBERS,
    WITH_PASSWORD,
    Mechanism,
)
from kafwire.errors import ConfigError
from kafwire.security.sasl import aws_msk_iam, gssapi, oauthbearer, plain

PACKAGE = Path(kafwire.__file__).parent
each = pytest.mark.parametrize("mechanism", MECHANISMS, ids=NAMES)


def lists(tree: ast.AST) -> Iterator[int]:
    """The lines that list mechanisms a second time."""
    for node in ast.walk(tree):
        values: list[ast.expr | None] = []
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [*node.elts]
        elif isinstance(node, ast.Dict):
            values = [*node.keys, *node.values]
        if sum(isinstance(value, ast.Constant) and value.value in NAMES for value in values) > 1:
            yield min(value.lineno for value in values if value is not None)


def test_mechanisms_are_listed_once() -> None:
    found = [
        f"{file.relative_to(PACKAGE)}:{line}"
        for file in sorted(PACKAGE.rglob("*.py"))
        if file.name not in ("sasl_mechanisms.py", "typed_options.py")  # its types are generated
        for line in lists(ast.parse(file.read_text()))
    ]
    assert not found, f"read kafwire/config/sasl_mechanisms.py: {found}"


def test_a_second_list_is_found() -> None:
    assert [*lists(ast.parse('USED = ("PLAIN", "GSSAPI")'))] == [1]
    assert [*lists(ast.parse('HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}'))] == [1]
    assert not [*lists(ast.parse('USED = ("PLAIN", "other")'))]


def test_the_names_are_those_of_kafka() -> None:
    assert NAMES == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI")
    assert NAMES[:3] == WITH_PASSWORD
    assert {*NAMES} - {*IN_KAFKA} == {"AWS_MSK_IAM"}
    assert SCRAM_NUMBERS == {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
    assert all(hashlib.new(name).digest_size in (32, 64) for name in SCRAM_HASHES.values())


@each
def test_a_client_may_use_it(mechanism: Mechanism) -> None:
    options = {"bootstrap_servers": "a:1", "security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism.name}
    if mechanism.has_password:
        with pytest.raises(ConfigError, match=f"{mechanism.name} needs sasl_username and sasl_password"):
            ClientConfig.build(options)
        options |= {"sasl_username": "u", "sasl_password": "p"}
    if mechanism.name == "OAUTHBEARER":
        options["sasl_oauthbearer_token_provider"] = lambda: "token"  # type: ignore[assignment]
    assert ClientConfig.build(options).sasl_mechanism == mechanism.name


@each
def test_a_jaas_text_selects_it(mechanism: Mechanism) -> None:
    assert mechanism.name in parse_jaas(f"{mechanism.login_module} required;").mechanisms


def test_exchanges_have_its_name() -> None:
    modules = [module.MECHANISM for module in (plain, oauthbearer, aws_msk_iam, gssapi)]
    assert sorted([*modules, *SCRAM_HASHES]) == sorted(NAMES), "each has an exchange in security/sasl"


@each
def test_a_test_cluster_has_it_if_kafka_has(mechanism: Mechanism) -> None:
    if mechanism.name == "GSSAPI":
        with pytest.raises(ValueError, match="needs keytab"):
            Security("SASL_SSL", [mechanism.name])
    elif mechanism.is_in_kafka:
        assert Security("SASL_SSL", [mechanism.name]).mechanisms == (mechanism.name,)
    else:
        with pytest.raises(ValueError, match=mechanism.name):
            Security("SASL_SSL", [mechanism.name])
