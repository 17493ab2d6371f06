"""Prometheus: the metrics of clients in the text format, and an HTTP server for scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafwire.errors import KafkaError
from kafwire.telemetry.registry import COUNTERS
from kafwire.telemetry.sampling import Sample, samples, series
from kafwire.telemetry.sources import Source, snapshots

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def prometheus_text(*sources: Source, **named: Source) -> str:
    """Return the metrics of clients in Prometheus' text format.

    Every sample has the label `client`: the keyword of its source, or else its kind (`producer`, `consumer_2`).

    Args:
        sources: producers, consumers, share consumers, monitors of streams, outboxes, `kafwire.spark.listen` objects,
            snapshots of their `metrics()`, or functions that return one. Of an asyncio client, give the snapshot:
            `await client.metrics()`.
        named: more of them, by the value of their label `client`.

    Returns:
        The text, for the content type `text/plain; version=0.0.4`.

    Raises:
        ConfigError: a source has no metrics, or is an asyncio client.
        KafkaError: a client is closed.

    Example:
        >>> from kafwire.telemetry import prometheus_text
        >>> print(prometheus_text(orders={"acquired": 3}), end="")
        # HELP kafwire_share_consumer_acquired_total From brokers
        # TYPE kafwire_share_consumer_acquired_total counter
        kafwire_share_consumer_acquired_total{client="orders"} 3
    """
    found: list[Sample] = []
    for name, snapshot in snapshots(sources, named):
        found += samples(snapshot, {"client": name})
    return _text(found)


def _scraped(sources: tuple[Source, ...], named: Mapping[str, Source], names: dict[int, str]) -> str:
    """Return the text for a scrape, without the sources that fail; `names`: as for `snapshots`."""
    found: list[Sample] = []
    problems: list[str] = []

    def on_error(error: Exception) -> None:
        text = f"{error}" if isinstance(error, KafkaError) else f"{type(error).__name__}: {error}"
        problems.append(f"# {' '.join(text.split())}\n")

    for name, snapshot in snapshots(sources, named, on_error, names):
        found += samples(snapshot, {"client": name})
    return _text(found) + "".join(problems)


def _text(found: list[Sample]) -> str:
    """Return the text: the samples of a metric stand together, below its help and type."""
    by_name: dict[str, list[Sample]] = {}
    for sample in found:
        by_name.setdefault(sample.metric.name, []).append(sample)
    lines = []
    for name, group in by_name.items():
        metric = group[0].metric
        kind = "counter" if metric.kind in COUNTERS else "gauge"
        lines += [f"# HELP {name} {_help(metric.help)}", f"# TYPE {name} {kind}"]
        lines += [f"{series(name, sample.labels)} {_number(sample.value)}" for sample in group]
    return "".join(f"{line}\n" for line in lines)


def _help(text: str) -> str:
    return (text[:1].upper() + text[1:]).replace("\\", "\\\\").replace("\n", "\\n")


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def serve_prometheus(port: int, *sources: Source, host: str = "127.0.0.1", **named: Source) -> ThreadingHTTPServer:
    """Serve the metrics of clients over HTTP, in a daemon thread. Each request takes new snapshots.

    A client that is closed meanwhile, or a function that raises, leaves the response; the error is a comment there.

    Args:
        port: the port; 0: a free one, `server.server_port`.
        sources: as for `prometheus_text`. For an asyncio client, a function that returns the last snapshot of its
            `metrics_hook`.
        host: the address to listen on; only this machine by default.
        named: as for `prometheus_text`.

    Returns:
        The server. `shutdown()` and `server_close()` end it.

    Raises:
        OSError: the port is taken.

    Example:
        >>> from kafwire.telemetry import serve_prometheus
        >>> import urllib.request
        >>> server = serve_prometheus(0, orders={"acquired": 3})
        >>> urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/metrics").read().splitlines()[-1]
        b'kafwire_share_consumer_acquired_total{client="orders"} 3'
        >>> server.shutdown(), server.server_close()
        (None, None)
    """
    import socket
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer  # with sockets, which few programs need here

    names: dict[int, str] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = _scraped(sources, named, names).encode()
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            """Log no line for a scrape."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    server = Server((host, port), Handler)
    threading.Thread(target=server.serve_forever, name="kafwire-prometheus", daemon=True).start()
    return server
