"""Spark reads and writes secured clusters, by the options of its own Kafka source, and shows no password and no key."""

from __future__ import annotations

import contextlib
import io
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from kafwire.testing import KafkaCluster, Security

PASSWORD = "canary-cf21"
# The pattern that docs/guide/spark.md advises for SQL.
REDACTED = "(?i)url|jaas|keystore[.]key|key[.]pem"


@pytest.fixture(scope="module")
def secured() -> Iterator[KafkaCluster]:
    listeners = [Security("SASL_SSL", users={"alice": PASSWORD}), Security("SSL", client_auth="required")]
    with KafkaCluster(security=listeners, properties={"auto.create.topics.enable": True}) as running:
        yield running


def prefixed(options: dict[str, str]) -> dict[str, str]:
    return {f"kafka.{name}": value for name, value in options.items()}


def scram(cluster: KafkaCluster) -> dict[str, str]:
    """The options in Java's form: a truststore of PEM, and JAAS."""
    return prefixed(cluster.client_options("alice", "SCRAM-SHA-512", listener="SASL_SSL", dialect="java"))


def mutual(cluster: KafkaCluster) -> dict[str, str]:
    """The options in Java's form: texts of PEM, no file."""
    files = cluster.security.certificates
    return prefixed(
        {
            "bootstrap.servers": cluster.bootstrap_of("SSL_MTLS"),
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": files.ca_pem.read_text(),
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": files.client_certificate.read_text(),
            "ssl.keystore.key": files.client_key.read_text(),
        }
    )


def secrets_of(cluster: KafkaCluster) -> list[str]:
    """The password, and a line of the private key that is in no other."""
    return [PASSWORD, cluster.security.certificates.client_key.read_text().splitlines()[2]]


def write(spark: SparkSession, options: dict[str, str], topic: str) -> None:
    frame = spark.range(3).selectExpr("cast(id as string) as value")
    frame.write.format("kafwire").mode("append").options(**options).option("topic", topic).save()


def read(spark: SparkSession, options: dict[str, str], topic: str) -> DataFrame:
    return spark.read.format("kafwire").schema("value binary").options(**options).option("subscribe", topic).load()


def plans(frame: DataFrame) -> str:
    """All that Spark shows of a query: `explain`, its plans as text and JSON, and the store of the UI."""
    query: Any = frame._jdf.queryExecution()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for mode in ("extended", "formatted", "codegen"):
            frame.explain(mode=mode)
    kept: Any = frame.sparkSession._jsparkSession.sharedState().statusStore().executionsList()
    shown = [kept.apply(i) for i in range(kept.size())]
    return "\n".join(
        [
            *(plan.toString() + plan.toJSON() for plan in (query.logical(), query.analyzed(), query.optimizedPlan())),
            *(query.toString(), query.executedPlan().treeString(), printed.getvalue(), repr(frame)),
            *(each.physicalPlanDescription() + each.description() + each.details() for each in shown),
        ]
    )


@contextlib.contextmanager
def logged(spark: SparkSession, file: Path) -> Iterator[None]:
    """All that Spark's JVM logs at DEBUG, in a file: in local mode it is driver and executor."""
    jvm: Any = spark._jvm
    core = jvm.org.apache.logging.log4j.core
    context = jvm.org.apache.logging.log4j.LogManager.getContext(False)
    root = context.getConfiguration().getRootLogger()
    made = core.appender.FileAppender.newBuilder().withFileName(str(file))
    made.setName("canary").setLayout(core.layout.PatternLayout.newBuilder().withPattern("%p %c %m%n").build())
    appender = made.build()
    appender.start()
    root.addAppender(appender, None, None)
    spark.sparkContext.setLogLevel("DEBUG")
    try:
        yield
    finally:
        spark.sparkContext.setLogLevel("ERROR")
        root.removeAppender("canary")
        appender.stop()


def test_records_there_and_back_and_nothing_shown(
    spark: SparkSession, secured: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    shown = ""
    with logged(spark, log):
        for number, options in enumerate((scram(secured), mutual(secured))):
            topic = f"{topic_name}-{number}"
            write(spark, options, topic)
            frame = read(spark, options, topic)
            assert sorted(row.value for row in frame.collect()) == [b"0", b"1", b"2"]
            reader = spark.read.format("kafwire").options(**options)
            shown += plans(frame) + str(reader) + repr(reader)
    text = log.read_text()
    assert "\nDEBUG org.apache.spark" in text
    assert "BatchScan kafwire" in shown
    for secret in secrets_of(secured):
        assert secret not in shown
        assert secret not in text


def test_a_view_of_sql_is_redacted(spark: SparkSession, secured: KafkaCluster, topic_name: str) -> None:
    """Spark keeps the options of a view in its plan, and hides those whose names or values match its expressions."""
    write(spark, mutual(secured), topic_name)
    shown = ""
    spark.conf.set("spark.sql.redaction.options.regex", REDACTED)
    try:
        for number, options in enumerate((scram(secured), mutual(secured))):
            escaped = {name: value.replace('"', '\\"') for name, value in options.items()} | {"subscribe": topic_name}
            listed = ", ".join(f"'{name}' \"{value}\"" for name, value in escaped.items())
            name = f"redacted_{number}"
            shown += plans(spark.sql(f"CREATE TEMPORARY VIEW {name} USING kafwire OPTIONS ({listed})"))
            frame = spark.sql(f"SELECT * FROM {name}")
            assert frame.count() == 3
            shown += plans(frame) + str(spark.sql(f"DESCRIBE EXTENDED {name}").collect())
    finally:
        spark.conf.unset("spark.sql.redaction.options.regex")
    assert "REDACTED" in shown.upper()
    for secret in secrets_of(secured):
        assert secret not in shown


def test_a_wrong_password_is_an_error_without_the_password(
    spark: SparkSession, secured: KafkaCluster, topic_name: str
) -> None:
    wrong = {name: value.replace(PASSWORD, PASSWORD + "?") for name, value in scram(secured).items()}
    for attempt in (lambda: write(spark, wrong, topic_name), lambda: read(spark, wrong, topic_name).collect()):
        with pytest.raises(PySparkException, match="refused .*alice.* by SCRAM-SHA-512") as caught:
            attempt()
        assert PASSWORD not in str(caught.value)


def test_files_are_looked_for_on_each_node(
    spark: SparkSession, secured: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    missing = scram(secured) | {"kafka.ssl.truststore.location": str(tmp_path / "ca.pem")}
    where = f"on the host {socket.gethostname()}: option ssl_ca_location=.*: No such file"
    for attempt in (lambda: write(spark, missing, topic_name), lambda: read(spark, missing, topic_name).collect()):
        with pytest.raises(PySparkException, match=where):
            attempt()


def test_a_java_keystore_is_refused_with_the_command_that_converts_it(
    spark: SparkSession, secured: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    store = tmp_path / "client.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    options = scram(secured) | {"kafka.ssl.truststore.location": str(store), "kafka.ssl.truststore.type": "JKS"}
    with pytest.raises(PySparkException, match="keytool -importkeystore -srckeystore .*client.jks"):
        read(spark, options, topic_name).collect()
