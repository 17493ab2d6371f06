"""`calls`: both faces of a client check their arguments in one place, and lead to the same call."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[3] / "kafwire"

# Modules whose functions and classes raise `ConfigError` for a user's value.
CHECKS = (
    "kafwire.cluster.offset_spec",
    "kafwire.config",
    "kafwire.integers",
    "kafwire.serializer_calls",
    "kafwire.timeouts",
)
ERRORS = {"ConfigError", "TypeError", "ValueError"}
# Checks that stand in both faces, and why.
IN_BOTH = {
    "milliseconds": "of `poll` and `batches`, whose timeout the readers of both faces check without a call between"
}

FACES = [
    ("client", "Client"),
    ("token_calls", "TokenCalls"),
    ("consumer", "Consumer"),
    ("producer", "Producer"),
    ("share_consumer", "ShareConsumer"),
    ("partition_stream", "PartitionStream"),
    ("cluster_client", "ClusterClient"),
    ("admin/acls", "AclAdmin"),
    ("admin/cluster", "ClusterAdmin"),
    ("admin/configs", "ConfigAdmin"),
    ("admin/group_offsets", "GroupOffsetAdmin"),
    ("admin/groups", "GroupAdmin"),
    ("admin/quorum", "QuorumAdmin"),
    ("admin/quotas", "QuotaAdmin"),
    ("admin/records", "RecordAdmin"),
    ("admin/replicas", "ReplicaAdmin"),
    ("admin/topics", "TopicAdmin"),
    ("admin/transactions", "TransactionAdmin"),
    ("admin/users", "UserAdmin"),
]
# Methods without a common call, and why.
WITHOUT = {
    "ClusterClient.close": "one face waits for the cluster's close, the other only begins it",
    "Consumer.__iter__": "a layer would cost each record",
    "Consumer.batches": "a layer would cost each batch",
    "PartitionStream.__init__": "it makes no call",
    "PartitionStream.__iter__": "it returns the stream",
    "ShareConsumer.__iter__": "a layer would cost each record",
}


def imports_of(tree: ast.AST, modules: tuple[str, ...]) -> set[str]:
    """The names that a module imports from these modules, or from modules in them."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module
        if any(f"{node.module}.".startswith(f"{module}.") for module in modules)
        for alias in node.names
    }


def checks_of(tree: ast.AST) -> Iterator[str]:
    """The checks of arguments that are written there, by the name of the function or of the error."""
    checking = imports_of(tree, CHECKS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ERRORS or (called.partition(".")[0] in checking and called != "described_by"):
                yield called


def checks_in(package: str) -> set[str]:
    return {name for file in (PACKAGE / package).glob("*.py") for name in checks_of(ast.parse(file.read_text()))}


def test_a_check_of_arguments_stands_in_one_face_at_most() -> None:
    assert checks_in("sync") & checks_in("aio") == IN_BOTH.keys(), "check it in kafwire/calls, once for both faces"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from kafwire.timeouts import timeout_of\ntimeout_of(timeout)", {"timeout_of"}),
        ("from kafwire.config import ClientConfig\nClientConfig.build(options)", {"ClientConfig.build"}),
        ("raise ConfigError('a topic is needed')", {"ConfigError"}),
        ("from kafwire.calls.client import keywords_of\nkeywords_of(options)", set()),
        ("self._run(self._calls.flush(timeout))", set()),
    ],
)
def test_a_check_of_arguments_is_found(code: str, found: set[str]) -> None:
    assert {*checks_of(ast.parse(code))} == found


def doors_of(method: ast.AST, functions: set[str]) -> set[str]:
    """The functions of `calls` that a method uses; without one, the parts of the engine side, and its own methods."""
    found = {node.id for node in ast.walk(method) if isinstance(node, ast.Name) and node.id in functions}
    texts = {ast.unparse(node) for node in ast.walk(method) if isinstance(node, ast.Attribute)}
    found |= {text for text in texts if re.fullmatch(r"self\.(_calls\.\w+|_covered)", text)}
    direct = {text for text in texts if re.fullmatch(r"self\.((_core|_cluster)\.[\w.]+|_hand\.take|[a-z]\w+)", text)}
    return found or {text for text in direct if not any(other.startswith(f"{text}.") for other in texts)}


def methods_of(face: str, module: str, name: str) -> dict[str, set[str]]:
    """The public methods of a class, and what each leads to."""
    tree = ast.parse((PACKAGE / face / f"{module}.py").read_text())
    functions = {name for name in imports_of(tree, ("kafwire.calls",)) if name[0].islower()}
    (kind,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    return {
        item.name.replace("__aiter__", "__iter__"): doors_of(item, functions)
        for item in kind.body
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef)
        if not item.name.startswith("_") or item.name in {"__init__", "__iter__", "__aiter__"}
    }


def test_both_faces_of_a_method_lead_to_the_same_call() -> None:
    apart = {}
    for module, name in FACES:
        blocking, awaited = methods_of("sync", module, name), methods_of("aio", module, f"Async{name}")
        for method in blocking.keys() & awaited.keys():
            one, other = blocking[method], awaited[method]
            if not (one & other if method == "__init__" else one == other != set()):  # a constructor makes more parts
                apart[f"{name}.{method}"] = (one, other)
    assert apart.keys() == WITHOUT.keys(), apart


@pytest.mark.parametrize(
    ("code", "doors"),
    [
        ("def f(self): self._run(self._calls.seek(partition, offset))", {"self._calls.seek"}),
        ("def f(self): return self._run(self._core.cluster.partitions, topic)", {"self._core.cluster.partitions"}),
        ("def f(self): return self.seek_to_timestamp('latest')", {"self.seek_to_timestamp"}),
        ("def f(self): return cls(**keywords_of(options))", {"keywords_of"}),
        ("def f(self): return self._reading.next(timeout)", set()),
    ],
)
def test_what_a_method_leads_to_is_found(code: str, doors: set[str]) -> None:
    assert doors_of(ast.parse(code), {"keywords_of"}) == doors
