"""`KafkaCluster`: real nodes start, break and come back on demand, and none of them is left behind."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafwire.broker.ports import alive_brokers
from kafwire.testing.cluster import ClusterError, KafkaCluster, prepare
from kafwire.testing.cluster.kafka import DEFAULT_VERSION
from kafwire.testing.cluster.launcher import class_archive
from kafwire.testing.pytest_plugin import ClusterFactory
from tests.support.deadlines import until


def admin(cluster: KafkaCluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(cluster: KafkaCluster, topic: str, *, partitions: int = 1, replicas: int = 1) -> None:
    client = admin(cluster)  # the future fails when the client is collected
    (created,) = client.create_topics([NewTopic(topic, partitions, replicas)]).values()
    created.result(timeout=30)


def leaders(cluster: KafkaCluster, topic: str) -> set[int]:
    """The nodes that lead partitions of the topic; empty while the asked node does not know it."""
    known = admin(cluster).list_topics(timeout=10).topics.get(topic)
    return {part.leader for part in known.partitions.values()} if known is not None else set()


def write(cluster: KafkaCluster, topic: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number).encode())
    assert producer.flush(30) == 0


def alive(pid: int) -> bool:
    """True if a process runs; a zombie, whose parent has not asked for its end yet, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("fixture", ["cluster", "cluster_391"])
def test_node_is_ready_for_topics_and_records(fixture: str, topic_name: str, request: pytest.FixtureRequest) -> None:
    cluster: KafkaCluster = request.getfixturevalue(fixture)
    create(cluster, topic_name, partitions=3)
    write(cluster, topic_name, 10)
    assert len(admin(cluster).list_topics(timeout=10).topics[topic_name].partitions) == 3


def test_asking_for_a_topic_does_not_create_it(cluster: KafkaCluster, topic_name: str) -> None:
    assert admin(cluster).list_topics(topic_name, timeout=10).topics[topic_name].error is not None
    assert topic_name not in admin(cluster).list_topics(timeout=10).topics


def test_broker_properties_win_and_booleans_are_java_s(make_cluster: ClusterFactory, topic_name: str) -> None:
    cluster = make_cluster(properties={"auto.create.topics.enable": True, "num.partitions": 7})
    write(cluster, topic_name, 1)
    assert len(admin(cluster).list_topics(timeout=10).topics[topic_name].partitions) == 7


def test_wrong_property_is_explained_by_the_log(make_cluster: ClusterFactory) -> None:
    with pytest.raises(ClusterError, match=r"(?s)node 1 .*log\.segment\.bytes"):
        make_cluster(properties={"log.segment.bytes": "many"})


def test_killed_stopped_and_paused_node_comes_back_with_port_and_data(
    make_cluster: ClusterFactory, topic_name: str
) -> None:
    cluster = make_cluster()
    node, bootstrap = cluster.node(1), cluster.bootstrap
    create(cluster, topic_name)
    for end in (node.kill, node.stop):
        end()
        assert node.pid is None
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", node.port), timeout=5)
        node.start()
        assert cluster.bootstrap == bootstrap
        assert topic_name in admin(cluster).list_topics(timeout=10).topics
    node.pause()
    assert alive_brokers(node.port) == set()  # the kernel accepts the connection, and no process responds
    node.resume()
    node.wait_ready()


@pytest.mark.long
def test_three_nodes_outlive_one(make_cluster: ClusterFactory, topic_name: str) -> None:
    cluster = make_cluster(3)
    assert len(set(cluster.bootstrap.split(","))) == 3
    create(cluster, topic_name, partitions=3, replicas=3)
    until(lambda: leaders(cluster, topic_name) == {1, 2, 3}, "the topic known to all nodes")
    cluster.node(2).kill()
    until(lambda: leaders(cluster, topic_name) == {1, 3}, "new leaders")
    write(cluster, topic_name, 100)


def test_nodes_and_data_are_gone_after_close(make_cluster: ClusterFactory) -> None:
    cluster = make_cluster()
    pid, folder = cluster.node(1).pid, cluster.node(1).log_file.parent
    assert pid is not None
    cluster.close()
    assert not alive(pid)
    assert not folder.exists()


def test_another_process_talks_to_it_and_ends_nothing_by_closing(
    make_cluster: ClusterFactory, topic_name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = make_cluster()
    create(cluster, topic_name)
    program = (
        "import sys; from kafwire.testing import KafkaCluster;"
        "cluster = KafkaCluster.attach(sys.stdin.read()); node = cluster.node(1);"
        "print(cluster.bootstrap, node.pid, node.data, len(node.log()) > 1000, cluster.version);"
        "cluster.close()"
    )
    subprocess.run([sys.executable, "-c", program], input=cluster.describe(), text=True, check=True, timeout=30)
    node = cluster.node(1)
    assert capfd.readouterr().out.split() == [cluster.bootstrap, str(node.pid), str(node.data), "True", cluster.version]
    assert topic_name in admin(cluster).list_topics(timeout=10).topics
    attached = KafkaCluster.attach(cluster.describe()).node(1)
    assert attached.pid == node.pid
    attached.kill()
    assert attached.pid is None
    until(lambda: node.pid is None, "the node's end")


@pytest.mark.long
def test_clusters_of_one_template_differ(make_cluster: ClusterFactory) -> None:
    first, second = (make_cluster(nodes) for nodes in (1, 2))
    written = [(node.data / "meta.properties").read_text().splitlines() for node in (*first.nodes, *second.nodes)]
    metadata = [dict(line.split("=", 1) for line in lines if "=" in line) for lines in written]
    assert [properties["node.id"] for properties in metadata] == ["1", "1", "2"]
    assert len({properties["directory.id"] for properties in metadata}) == 3
    assert metadata[0]["cluster.id"] != metadata[1]["cluster.id"] == metadata[2]["cluster.id"]


def test_a_node_loads_its_classes_from_the_archive(make_cluster: ClusterFactory) -> None:
    prepare()
    pid = make_cluster().node(1).pid
    assert str(class_archive(DEFAULT_VERSION)) in Path(f"/proc/{pid}/maps").read_text()


def test_logs_are_kept_when_the_block_fails() -> None:
    with pytest.raises(ValueError, match="on purpose") as caught, KafkaCluster():
        message = "on purpose"
        raise ValueError(message)
    (note,) = caught.value.__notes__
    kept = Path(note.rpartition(" ")[2])
    assert "Kafka Server started" in (kept / "node-1-node.log").read_text()
    shutil.rmtree(kept)


def test_no_node_outlives_a_killed_owner() -> None:
    program = (
        "import sys; from kafwire.testing import KafkaCluster; cluster = KafkaCluster(); cluster.start();"
        "print(cluster.node(1).pid, cluster.node(1).log_file.parent, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split()
        assert alive(int(pid))
        owner.kill()
    until(lambda: not alive(int(pid)), "the node's end")
    until(lambda: not Path(folder).exists(), "the data's end")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_command_runs_until_it_is_asked_to_stop(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "kafwire.testing.cluster", "start", "--property", "num.partitions=5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        host, port = running.stdout.readline().strip().split(":")
        assert alive_brokers(int(port)) == {1}
        os.kill(running.pid, number)
        assert running.wait(60) == 0
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), timeout=5)


def test_command_names_a_wrong_property() -> None:
    command = [sys.executable, "-m", "kafwire.testing.cluster", "start", "--property", "log.segment.bytes=many"]
    response = subprocess.run(command, capture_output=True, text=True, check=False)
    assert response.returncode == 1
    assert "log.segment.bytes" in response.stderr
    assert "Traceback" not in response.stderr
