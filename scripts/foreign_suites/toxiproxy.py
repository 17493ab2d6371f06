"""sarama's environment: five embedded brokers behind fault proxies, and stand-ins for toxiproxy's HTTP API and docker.

The suite connects to fixed ports, disables proxies, adds latency and resets connections through toxiproxy, and stops
and starts brokers through `docker compose`.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from kafwire.testing import EmbeddedKafka
from kafwire.testing.faults import Delay, FaultProxy, Reset, Rule
from scripts.foreign_suites.running import SuiteError

__all__ = ["toxiproxy", "write_shim"]

_HOST = "127.0.0.1"
_BROKERS = range(1, 6)
_FIRST_PORT = 29091  # the suite's, not to be chosen
_BEHIND = _FIRST_PORT - 10  # of the brokers behind the proxies
_SHIM = """#!{python}
import sys, urllib.error, urllib.request

if len(sys.argv) != 4 or sys.argv[1] != "compose" or sys.argv[2] not in ("stop", "start"):
    sys.exit("docker: only compose stop and compose start of a broker")
number = sys.argv[3].rpartition("-")[2]
try:
    urllib.request.urlopen(urllib.request.Request(f"{endpoint}/brokers/{{number}}/{{sys.argv[2]}}", method="POST"))
except urllib.error.URLError as error:
    sys.exit(f"docker: {{error}}")
"""


class _Environment:
    """The brokers and proxies, changed by the suite's requests."""

    def __init__(self, kafka: EmbeddedKafka, proxies: FaultProxy) -> None:
        self._kafka = kafka
        self._proxies = proxies
        self._lock = threading.Lock()
        self._disabled: set[int] = set()
        self._stopped: set[int] = set()

    def request(self, method: str, path: list[str], body: Any) -> tuple[int, Any]:
        """Serve a request of toxiproxy's API, or `brokers/N/stop`; status and JSON."""
        with self._lock:
            match method, path:
                case "GET", ["proxies", name]:
                    return 200, self._proxy(name)
                case "POST", ["proxies", name]:
                    self._enable(_number(name), body["enabled"])
                    return 200, self._proxy(name)
                case "POST", ["proxies", name, "toxics"]:
                    return self._toxic(_number(name), body)
                case "POST", ["reset"]:
                    self._reset()
                    return 204, None
                case "POST", ["brokers", number, ("stop" | "start") as action]:
                    self._switch(int(number), action)
                    return 204, None
        return 404, {"error": "not found"}

    def _proxy(self, name: str) -> dict[str, Any]:
        number = _number(name)
        port = _FIRST_PORT + number - 1
        return {"name": name, "listen": f"{_HOST}:{port}", "upstream": name, "enabled": number not in self._disabled}

    def _enable(self, number: int, enabled: bool) -> None:
        if enabled == (number not in self._disabled):
            return
        if enabled:
            self._disabled.discard(number)
            self._serve(number)
        else:
            self._disabled.add(number)
            self._proxies.shut(number)
            self._proxies.play(Reset(), number)

    def _serve(self, number: int) -> None:
        if number not in self._disabled | self._stopped:
            self._proxies.serve(number)

    def _toxic(self, number: int, toxic: Any) -> tuple[int, Any]:
        if toxic["type"] == "latency":
            self._proxies.add(Rule(Delay(toxic["attributes"]["latency"] / 1000), broker=number))
        elif toxic["type"] == "reset_peer":
            self._proxies.play(Reset(), number)
        else:
            return 400, {"error": f"no toxic {toxic['type']}"}
        return 200, toxic

    def _reset(self) -> None:
        self._proxies.restart()
        for number in [*self._disabled]:
            self._enable(number, enabled=True)

    def _switch(self, number: int, action: str) -> None:
        if action == "stop" and number not in self._stopped:
            self._stopped.add(number)
            self._proxies.shut(number)
            self._kafka.stop_node(number)
        elif action == "start" and number in self._stopped:
            self._stopped.discard(number)
            self._kafka.start_node(number)
            self._serve(number)


def _number(name: str) -> int:
    return int(name.removeprefix("kafka"))


def _handler(environment: _Environment) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            path = self.path.strip("/").split("/")
            status, value = environment.request(self.command, path, json.loads(body) if body else None)
            data = b"" if value is None else json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *args: Any) -> None:
            """Log nothing."""

    return Handler


@contextmanager
def toxiproxy(configs: dict[str, str]) -> Iterator[str]:
    """Run the brokers and the proxies; the endpoint of the HTTP API."""
    try:
        with _brokers(configs) as (kafka, proxies):
            environment = _Environment(kafka, proxies)
            server = ThreadingHTTPServer((_HOST, 0), _handler(environment))
            thread = threading.Thread(target=server.serve_forever, name="toxiproxy", daemon=True)
            thread.start()
            try:
                yield f"http://{_HOST}:{server.server_address[1]}"
            finally:
                server.shutdown()
                server.server_close()
                thread.join()
    except OSError as error:
        ports = f"{_BEHIND} to {_BEHIND + len(_BROKERS) - 1} and {_FIRST_PORT} to {_FIRST_PORT + len(_BROKERS) - 1}"
        raise SuiteError(f"the suite needs the ports {ports} of {_HOST}: {error}") from None


@contextmanager
def _brokers(configs: dict[str, str]) -> Iterator[tuple[EmbeddedKafka, FaultProxy]]:
    advertised = f"{_HOST}:{_FIRST_PORT}"
    kafka = EmbeddedKafka(len(_BROKERS), host=_HOST, port=_BEHIND, advertised=advertised, configs=configs)
    for number, node in kafka.state.nodes.items():
        node.rack = str(number)
    targets = {number: f"{_HOST}:{_BEHIND + number - 1}" for number in _BROKERS}
    ports = {number: _FIRST_PORT + number - 1 for number in _BROKERS}
    with kafka, FaultProxy(targets, ports=ports) as proxies:
        yield kafka, proxies


def write_shim(folder: Path, endpoint: str) -> Path:
    """Write a `docker` that stops and starts brokers; its folder, for the PATH."""
    folder.mkdir()
    shim = folder / "docker"
    shim.write_text(_SHIM.format(python=sys.executable, endpoint=endpoint))
    shim.chmod(0o755)
    return folder
