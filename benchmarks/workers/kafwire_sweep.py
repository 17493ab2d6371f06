"""kafwire's `send` at a steady pace: how long from handing a record over to its acknowledgement.

pace: `burst` records together every `interval_us`, whatever came of those before; judged are `records` of them after
`warmup`. A delivery's callback takes the time, in the engine's thread.
"""

import time
from collections.abc import Callable

from benchmarks.workers.common import Options, Pass, Stopwatch, work
from benchmarks.workers.delays import percentile
from kafwire import Producer, __version__
from kafwire.producer.buffer._batch import Delivery


def pace(options: Options) -> Callable[[], Pass]:
    """Write records at a steady pace."""
    topic, burst, step = options.text("topic"), options.number("burst"), options.number("interval_us") / 1e6
    warmup = options.number("warmup")
    expected = warmup + options.number("records")
    value = b"v" * options.number("value_bytes")
    numbers = {name: int(given) for name, given in options.configuration().items() if given.isdigit()}

    def once() -> Pass:
        took: list[int] = []

        def send() -> None:
            start = time.perf_counter_ns()

            def done(delivery: Delivery) -> None:
                took.append(time.perf_counter_ns() - start)
                delivery.result(0)  # raises what went wrong, which is logged; the count then says so

            producer.send(topic, value).add_done_callback(done)

        with Producer(options.text("bootstrap"), **{**options.keywords(), **numbers}) as producer:
            producer.send(topic, value).result()
            clock = Stopwatch()
            for sent in range(0, expected, burst):
                while (early := sent // burst * step - clock.seconds()) > 0:
                    time.sleep(early)
                for _ in range(min(burst, expected - sent)):
                    send()
            producer.flush()
            seconds = clock.seconds()
        judged = took[warmup:]
        figures = {f"p{percent}": percentile(judged, percent) / 1e6 for percent in (50, 99)}
        return Pass(seconds, 1 + len(took), (1 + len(took)) * len(value), figures=figures)

    return once


if __name__ == "__main__":
    work({"pace": pace}, __version__)
