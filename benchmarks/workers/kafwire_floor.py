"""The limit of a caller that submits to kafwire's native I/O thread directly: one ready-made batch, not idempotent.

wait: one record after the other, each sent when the response to the one before it has come. The caller waits for the
thread's descriptor; no engine, and nothing decoded but the error code.
"""

import select
import socket
import time
from collections.abc import Callable
from itertools import count

from benchmarks.workers.common import Options, Pass, work
from benchmarks.workers.waits import wait_for_each
from kafwire import protocol
from kafwire._version import __version__
from kafwire.records import Record, encode_batch
from kafwire.runtime import _io

VERSION = 9
MAX_FRAME = 1 << 20


def wait(options: Options) -> Callable[[], Pass]:
    """Write records one by one, each when the one before it is acknowledged."""
    host, port = options.text("bootstrap").rsplit(":", 1)
    topic = options.text("topic")
    batch = encode_batch([Record(bytes(options.number("value_bytes")), timestamp_ms=time.time_ns() // 10**6)])
    partition = protocol.ProduceRequest.PartitionProduceData(index=0, records=batch)
    request = protocol.ProduceRequest(
        acks=-1,
        timeout_ms=30_000,
        topic_data=[protocol.ProduceRequest.TopicProduceData(name=topic, partition_data=[partition])],
    )

    def once() -> Pass:
        native = _io.Loop()
        number = native.connect((socket.gethostbyname(host), int(port)), socket.AF_INET, max_frame=MAX_FRAME)
        waiting = select.poll()
        waiting.register(native.fileno(), select.POLLIN)
        ids = count(1)

        def send_and_wait(_value: bytes) -> None:
            correlation = next(ids)
            frame = protocol.encode_request(request, VERSION, correlation, "floor")
            native.submit(number, correlation, correlation, [frame], True)
            while True:
                waiting.poll()
                for kind, _, token, payload in native.drain():
                    if kind == _io.CLOSED:
                        raise RuntimeError(f"closed: {payload}")
                    if kind == _io.RESPONSE and token == correlation:
                        _, response = protocol.decode_response(protocol.ProduceRequest, payload, VERSION)
                        error = response.responses[0].partition_responses[0].error_code
                        if error:
                            raise RuntimeError(f"error {error}")
                        return

        try:
            return wait_for_each(options, send_and_wait)
        finally:
            native.stop()

    return once


if __name__ == "__main__":
    work({"wait": wait}, __version__)
