"""The command line of `kafwire.testing.cluster`: run a cluster, fetch jars, or prepare quick starts."""

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType

from kafwire.broker.security.client_files import written_options
from kafwire.broker.security.security import Security
from kafwire.broker.setup_error import SetupError
from kafwire.config.sasl_mechanisms import GSSAPI, IN_KAFKA
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, class_path
from kafwire.testing.cluster.kafka_cluster import KafkaCluster, prepare
from kafwire.testing.cluster.node import ClusterError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a cluster until Ctrl-C or SIGTERM: `python -m kafwire.testing.cluster start`."""
    parser = argparse.ArgumentParser(prog="python -m kafwire.testing.cluster", description=main.__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    start = commands.add_parser("start", help="run a cluster; its bootstrap servers are the first line printed")
    start.add_argument("--nodes", type=int, default=1, choices=(1, 2, 3))
    start.add_argument("--version", default=DEFAULT_VERSION, help=f"Kafka's version (default: {DEFAULT_VERSION})")
    start.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="a broker property")
    start.add_argument(
        "--security",
        action="append",
        default=[],
        type=str.upper,
        choices=("SSL", "SSL_MTLS", "SASL_PLAINTEXT", "SASL_SSL"),
        help="a secured listener; options of clients are written to files, whose paths are printed (repeatable)",
    )
    start.add_argument(
        "--mechanism",
        action="append",
        default=[],
        type=str.upper,
        choices=[name for name in IN_KAFKA if name != GSSAPI.name],
        help="of SASL (repeatable)",
    )
    start.add_argument("--heap", default="512m", help="Java's -Xmx per node (default: 512m)")
    fetch = commands.add_parser("fetch", help="fetch the jars of a version, without starting anything")
    fetch.add_argument("versions", nargs="*", default=[DEFAULT_VERSION], metavar="VERSION")
    ready = commands.add_parser("prepare", help="make starts of a version quick, once per user (some seconds)")
    ready.add_argument("versions", nargs="*", default=[DEFAULT_VERSION], metavar="VERSION")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.command == "prepare":
            for version in chosen.versions:
                prepare(version)
            return 0
        if chosen.command == "fetch":
            for version in chosen.versions:
                print(class_path(version))
            return 0
        if wrong := [item for item in chosen.property if "=" not in item]:
            parser.error(f"--property takes KEY=VALUE, not {wrong[0]!r}")
        properties = dict(item.split("=", 1) for item in chosen.property)
        security = [_listener(name, chosen.mechanism) for name in chosen.security]
        version, heap = chosen.version, chosen.heap
        cluster = KafkaCluster(chosen.nodes, version, properties, heap=heap, quick=False, security=security)
        return _run(cluster, secured=bool(security))
    except (SetupError, ClusterError) as error:
        print(error, file=sys.stderr)
        return 1


def _listener(name: str, mechanisms: Sequence[str]) -> Security:
    if name.startswith("SSL"):
        return Security("SSL", client_auth="required" if name == "SSL_MTLS" else "none")
    return Security(name, mechanisms)  # type: ignore[arg-type]


def _run(cluster: KafkaCluster, *, secured: bool) -> int:
    asked_to_end = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        asked_to_end.set()

    try:
        with cluster:
            # Until here Ctrl-C interrupts the start, as usual; from here on it asks for a clean stop.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, end)
            print(cluster.bootstrap, flush=True)
            if secured:
                print(written_options(cluster.security), flush=True)
            while not asked_to_end.wait(0.5):
                for node in cluster.nodes:
                    if node.pid is None:
                        raise ClusterError(node.explain("ended by itself"))
            cluster.stop()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
