"""The findings of `kafwire spark doctor`. Pure except for `cluster_findings`, which sends requests."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kafwire import protocol
from kafwire.errors import ConfigError, KafkaError, broker_error

if TYPE_CHECKING:
    from kafwire import Client

__all__ = [
    "SparkFinding",
    "cluster_findings",
    "executor_findings",
    "failure_of_job",
    "java_finding",
    "options_findings",
    "package_findings",
    "traceback_finding",
]

_JAVA = re.compile(r'version "(\d+)(?:\.(\d+))?')
_LEAST_JAVA = 17
_OLD_JAVA = 1  # Java 8 reports version 1.8
_LEAST_PYSPARK = (4, 2)
# The numbers of Kafka's AclOperation: bits in a response's authorized operations.
_READ, _WRITE, _DESCRIBE = 3, 4, 8
_NOT_SAID = -(1 << 31)
_BROKER_RESOURCE = 4
_LIMIT = "transaction.max.timeout.ms"
# The last line of a Python traceback, which is in the middle of Spark's own message.
_RAISED = re.compile(r"^(?:[A-Za-z_][\w.]*\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b.*", re.MULTILINE)
# The Java exception that py4j shows after its own line.
_RAISED_IN_JAVA = re.compile(r"^: (.*)", re.MULTILINE)


@dataclass(frozen=True)
class SparkFinding:
    """The result of one check: its place, the observation, and a remedy. "?" marks a check that could not run."""

    step: str
    state: Literal["ok", "WRONG", "?"]
    where: str
    seen: str
    change: str = ""


def java_finding(text: str | None, path: str) -> SparkFinding:
    """Judge the output of `java -version`; None: Java was not found."""
    if text is None:
        return SparkFinding("java", "WRONG", "driver", f"{path} does not exist", "install a JDK 17 and set JAVA_HOME")
    found = _JAVA.search(text)
    if found is None:
        return SparkFinding("java", "?", "driver", f"{path} -version printed no version: {' '.join(text.split())[:80]}")
    version = int(found[2] or 0) if int(found[1]) == _OLD_JAVA else int(found[1])
    if version < _LEAST_JAVA:
        change = f"install a JDK {_LEAST_JAVA} or later and set JAVA_HOME"
        return SparkFinding("java", "WRONG", "driver", f"Java {version} ({path})", change)
    return SparkFinding("java", "ok", "driver", f"Java {version} ({path})")


def package_findings(
    where: str, packages: Mapping[str, str | None], driver: Mapping[str, str | None]
) -> Iterator[SparkFinding]:
    """Judge the packages of one place; an executor needs the driver's kafwire."""
    versions = ", ".join(f"{name} {version}" for name, version in packages.items() if version)
    missing = [name for name in ("pyspark", "pyarrow") if packages.get(name) is None]
    if missing:
        change = f"install {' and '.join(missing)} in the Python that runs there: pip install 'kafwire[spark]'"
        yield SparkFinding("packages", "WRONG", where, f"no {' and no '.join(missing)}", change)
        return
    pyspark = packages["pyspark"] or ""
    numbers = tuple(int(number) for number in re.findall(r"\d+", pyspark)[:2])
    if numbers < _LEAST_PYSPARK:
        yield SparkFinding("packages", "WRONG", where, f"pyspark {pyspark}", "install pyspark 4.2 or later")
        return
    mine, its = driver.get("kafwire"), packages.get("kafwire")
    if mine and its and mine != its:
        change = f"install kafwire {mine} there, or {its} here: tasks are pickles of kafwire's classes"
        yield SparkFinding("packages", "WRONG", where, f"kafwire {its}, and {mine} in the driver", change)
        return
    yield SparkFinding("packages", "ok", where, versions)


def executor_findings(
    probes: Sequence[Mapping[str, Any]], executors: int | None, driver: Mapping[str, str | None]
) -> Iterator[SparkFinding]:
    """Judge the reports of tasks. `executors` is the number of Spark's executors, None if unknown."""
    places = {probe["executor"]: probe for probe in probes}
    seen = f"the check ran in {len(places)} executor(s): {', '.join(sorted({p['host'] for p in places.values()}))}"
    if executors is not None and len(places) < executors:
        change = "the other executors were not checked: run it again when they are idle"
        yield SparkFinding("executors", "?", "cluster", f"{seen}; Spark has {executors}", change)
    else:
        yield SparkFinding("executors", "ok", "cluster", seen)
    for name, probe in sorted(places.items()):
        where = f"executor {name}"
        yield from package_findings(where, probe["packages"], driver)
        if probe["import_error"]:
            change = (
                "install the wheel of kafwire in the Python that runs there (spark.pyspark.python), or ship an "
                "environment with spark.archives: it has compiled modules, and --py-files cannot load those from a zip"
            )
            seen = f"Python {probe['python']} cannot import kafwire: {probe['import_error']}"
            yield SparkFinding("wheel", "WRONG", where, seen, change)
            continue
        for step in probe["reached"]:
            state: Literal["ok", "WRONG"] = "ok" if step["ok"] else "WRONG"
            yield SparkFinding(step["step"], state, where, f"{step['server']}: {step['seen']}", step["change"])


def traceback_finding(probes: Sequence[Mapping[str, Any]]) -> Iterator[SparkFinding]:
    """Report whether errors of workers include pyspark's traceback. Both are fine."""
    if not probes:
        return
    if all(probe["hides_traceback"] for probe in probes):
        yield SparkFinding("traceback", "ok", "executors", "SPARK_HIDE_TRACEBACK is set: errors are one line")
        return
    change = (
        "for errors of one line set SPARK_HIDE_TRACEBACK=1 for the driver and spark.executorEnv.SPARK_HIDE_TRACEBACK=1"
    )
    yield SparkFinding("traceback", "ok", "executors", "errors come with the traceback of pyspark's workers", change)


def options_findings(given: Mapping[str, str]) -> Iterator[SparkFinding]:
    """Judge the options of a source or a sink. A source has an option for what to read.

    A source with an end, and a sink with `delivery=atomic`, are for a batch; others may be for a stream.
    """
    from kafwire.spark.options import ATOMIC, BATCH_ONLY, STRATEGIES, read_options, write_options
    from kafwire.spark.stream_options import stream_options

    lowered = {name.lower(): text for name, text in given.items()}
    try:
        if lowered.keys().isdisjoint(name.lower() for name in STRATEGIES):
            is_batch = lowered.get("delivery", "").strip().lower() == ATOMIC
            write_options(given, is_stream=not is_batch)
            kind = "batch write" if is_batch else "sink"
        elif lowered.keys().isdisjoint(name.lower() for name in BATCH_ONLY):
            stream_options(given)
            kind = "stream"
        else:
            read_options(given)
            kind = "batch read"
    except ConfigError as error:
        yield SparkFinding("options", "WRONG", "driver", " ".join(str(error).split()), "correct the option")
        return
    yield SparkFinding("options", "ok", "driver", f"{len(given)} option(s) of a {kind}")


def cluster_findings(
    client: Client,
    *,
    reads: Iterable[str] = (),
    writes: Iterable[str] = (),
    group: str = "",
    exactly_once: bool = False,
) -> Iterator[SparkFinding]:
    """Check the operations that the cluster allows this user, and the limit of transactions."""
    for topic in reads:
        yield _topic_finding(client, topic, {"Read": _READ, "Describe": _DESCRIBE})
    for topic in writes:
        yield _topic_finding(client, topic, {"Write": _WRITE, "Describe": _DESCRIBE})
    if group:
        yield _group_finding(client, group)
    if exactly_once:
        seen = "brokers do not list the operations that are allowed on them"
        change = "allow Write and Describe on the prefix of the sink's transactional ids"
        yield SparkFinding("acl", "?", "transactional ids", seen, change)
        yield _limit_finding(client)


def failure_of_job(error: BaseException) -> str:
    """Return the line with the reason why a job failed: a worker's exception, else Java's, else the first line."""
    raised = _RAISED.findall(str(error)) or _RAISED_IN_JAVA.findall(str(error))
    return str(raised[-1] if raised else str(error).split("\n", 1)[0])[:400]


def _topic_finding(client: Client, topic: str, needed: Mapping[str, int]) -> SparkFinding:
    request: Any = protocol.MetadataRequest
    message = request(
        topics=[request.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    where = f"topic {topic}"
    try:
        (found,) = client.call(message).topics
    except KafkaError as error:
        return SparkFinding("acl", "?", where, " ".join(str(error).split()))
    if found.error_code:
        refusal = broker_error(found.error_code, "looking the topic up", api="Metadata", topic=topic)
        return SparkFinding(
            "acl", "WRONG", where, " ".join(str(refusal).split()), "create it, or allow Describe with an ACL"
        )
    return _acl_finding(where, found.topic_authorized_operations, needed, f"--topic {topic}")


def _group_finding(client: Client, group: str) -> SparkFinding:
    """Check Read on the group of the option `commitGroup`, which commits offsets."""
    where = f"group {group}"
    try:
        (place,) = client.call(protocol.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])).coordinators
        if place.error_code:
            raise broker_error(place.error_code, "looking for the coordinator", api="FindCoordinator")
        message = protocol.DescribeGroupsRequest(groups=[group], include_authorized_operations=True)
        (found,) = client.call(message, broker=place.node_id).groups
    except KafkaError as error:
        return SparkFinding("acl", "?", where, " ".join(str(error).split()))
    return _acl_finding(where, found.authorized_operations, {"Read": _READ}, f"--group {group}")


def _acl_finding(where: str, allowed: int, needed: Mapping[str, int], resource: str) -> SparkFinding:
    if allowed == _NOT_SAID:
        return SparkFinding("acl", "?", where, "the broker does not report the allowed operations")
    missing = [name for name, number in needed.items() if not allowed & 1 << number]
    if missing:
        changes = [f"kafka-acls.sh --add --operation {name} {resource}" for name in missing]
        return SparkFinding("acl", "WRONG", where, f"not allowed: {', '.join(missing)}", "; ".join(changes))
    return SparkFinding("acl", "ok", where, f"allowed: {', '.join(needed)}")


def _limit_finding(client: Client) -> SparkFinding:
    """Report the maximum duration of a transaction, which limits an exactly-once batch."""
    where = "cluster"
    try:
        broker = client.metadata([]).brokers[0].node_id
        request: Any = protocol.DescribeConfigsRequest
        resource = request.DescribeConfigsResource(
            resource_type=_BROKER_RESOURCE, resource_name=str(broker), configuration_keys=[_LIMIT]
        )
        (result,) = client.call(request(resources=[resource]), broker=broker).results
    except KafkaError as error:
        return SparkFinding("transactions", "?", where, " ".join(str(error).split()))
    values = [entry.value for entry in result.configs if entry.name == _LIMIT]
    if result.error_code or not values or not str(values[0]).isdecimal():
        change = "allow DescribeConfigs on the cluster, or ask its operators"
        return SparkFinding("transactions", "?", where, f"{_LIMIT} may not be read by this user", change)
    minutes = int(str(values[0])) / 60_000
    seen = f"{_LIMIT} is {values[0]}: an exactly-once batch must end within {minutes:g} minutes"
    return SparkFinding("transactions", "ok", where, seen)
