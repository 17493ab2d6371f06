"""The default properties of a node of a test cluster."""

from collections.abc import Mapping

from kafwire.broker.ports import HOST, ByNode, Ports

_LISTS = ("listeners", "advertised.listeners", "listener.security.protocol.map")


def default_properties(node_id: int, nodes: int, ports: Ports) -> dict[str, str]:
    """Return the properties of a node: broker and controller, quick to see other nodes fail, without loss of data."""
    port, controller = ports.listeners[node_id], ports.controllers[node_id]
    properties = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": _voters(ports.controllers),
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        # After a SIGKILL a node may register again only when its last session has expired: 9 s by default.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "log.retention.ms": "-1",
        "log.retention.bytes": "-1",
        "num.partitions": "1",
        "default.replication.factor": str(nodes),
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(nodes),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(nodes),
        "transaction.state.log.min.isr": str(min(nodes, 2)),
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(nodes),
        "share.coordinator.state.topic.min.isr": str(min(nodes, 2)),
    }
    if ports.proxies:
        # A separate listener: only its clients see its address, and the nodes find each other without it.
        properties["listeners"] += f",PROXIED://{HOST}:{ports.proxied[node_id]}"
        properties["advertised.listeners"] += f",PROXIED://{HOST}:{ports.proxies[node_id]}"
        properties["listener.security.protocol.map"] += ",PROXIED:PLAINTEXT"
    if ports.brokers:
        # Nodes and controllers find each other through the proxies between them; clients do not use these listeners.
        properties["controller.quorum.voters"] = _voters(ports.controller_fronts)
        properties["listeners"] += f",INNER://{HOST}:{ports.brokers[node_id]}"
        properties["advertised.listeners"] += f",INNER://{HOST}:{ports.broker_fronts[node_id]}"
        properties["advertised.listeners"] += f",CONTROLLER://{HOST}:{ports.controller_fronts[node_id]}"
        properties["listener.security.protocol.map"] += ",INNER:PLAINTEXT"
        properties["inter.broker.listener.name"] = "INNER"
    return properties


def _voters(controllers: ByNode) -> str:
    return ",".join(f"{voter}@{HOST}:{port}" for voter, port in controllers.items())


def property_texts(properties: Mapping[str, object]) -> dict[str, str]:
    """Return properties with their values as Kafka reads them."""
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in properties.items()}


def append_listeners(properties: dict[str, str], more: Mapping[str, str]) -> None:
    """Add properties of further listeners; their lists come after the present ones."""
    for key, value in more.items():
        properties[key] = f"{properties[key]},{value}" if key in _LISTS else value
