"""The fault proxies of a cluster: before the nodes, for clients, and between them."""

from collections.abc import Sequence

from kafwire.broker.ports import HOST, Ports
from kafwire.broker.security.security import Security
from kafwire.testing.cluster.node import ClusterError, KafkaNode
from kafwire.testing.faults import FaultProxy, Rule
from kafwire.testing.faults.sources import source_of

__all__ = ["ClusterProxies"]

_CONTROLLER = 100  # added to a node's id, it is the id of the proxy before the node's controller
_PLAIN = "PROXIED"


class ClusterProxies:
    """The proxies of one cluster; none before `start_before` and `start_between`."""

    def __init__(self, rules: Sequence[Rule], seed: int | None) -> None:
        """`seed` is the seed of each proxy; None draws one, which later starts keep."""
        self.before: dict[str, FaultProxy] = {}  # by the listener's name
        self._between: FaultProxy | None = None
        self._rules = rules
        self._seed = seed

    @property
    def first(self) -> FaultProxy:
        """The first proxy before the nodes, for most clients. Raises `ClusterError` if there is none."""
        if not self.before:
            message = "no proxy stands before these nodes: start them with KafkaCluster(..., proxies=True)"
            raise ClusterError(message)
        return next(iter(self.before.values()))

    def start_before(self, ports: Ports, listeners: Sequence[Security]) -> None:
        """Start the proxies before the nodes: one for each secured listener, or one before the plain ones."""
        behind = {_PLAIN: (ports.proxied, ports.proxies, True)}
        if listeners:
            behind = {
                # The proxy cannot find frames in TLS: the first bytes would end its search.
                each.name: (ports.secured[each.name], ports.secured_fronts[each.name], not each.has_tls)
                for each in listeners
            }
        self.before = {}
        for name, (nodes, fronts, frames) in behind.items():
            targets = {node: f"{HOST}:{port}" for node, port in nodes.items()}
            proxy = FaultProxy(targets, self._rules, seed=self._seed, ports=fronts, frames=frames)
            self.before[name] = proxy
            self._seed = proxy.seed
            _start(proxy, "the proxies cannot listen")

    def start_between(self, ports: Ports, nodes: Sequence[KafkaNode]) -> None:
        """Start the proxies between the nodes; `nodes` has the process ids once they run."""
        targets = {node: f"{HOST}:{port}" for node, port in ports.brokers.items()}
        targets |= {_CONTROLLER + node: f"{HOST}:{port}" for node, port in ports.controllers.items()}
        fronts = {_CONTROLLER + node: port for node, port in ports.controller_fronts.items()}

        def source_node(port: int) -> int | None:
            return source_of(port, {node.id: node.pid for node in nodes if node.pid is not None})

        self._between = FaultProxy(
            targets, ports={**ports.broker_fronts, **fronts}, frames=False, source_of=source_node
        )
        _start(self._between, "the proxies between nodes cannot listen")

    def part(self, one: int, others: Sequence[int]) -> None:
        """Cut a node off from others, both ways. Raises `ClusterError` without proxies between nodes."""
        if self._between is None:
            message = "no proxy stands between these nodes: start them with KafkaCluster(..., partitions=True)"
            raise ClusterError(message)
        for other in others:
            for target, source in ((one, other), (other, one)):
                self._between.sever(target, source)
                self._between.sever(_CONTROLLER + target, source)

    def rejoin(self) -> None:
        """Undo all that `part` did."""
        if self._between is not None:
            self._between.heal()

    def tell(self, node_id: int, is_up: bool) -> None:
        """Let the proxies of a stopped node refuse connections, as its own port would."""
        for proxy in self.before.values():
            if proxy.running:
                (proxy.serve if is_up else proxy.shut)(node_id)

    def close(self) -> None:
        """Close all proxies. The events and requests of those before the nodes stay readable."""
        for proxy in (*self.before.values(), self._between):
            if proxy is not None:
                proxy.close()


def _start(proxy: FaultProxy, problem: str) -> None:
    try:
        proxy.start()
    except OSError as error:
        raise ClusterError(f"{problem}: {error}") from error
