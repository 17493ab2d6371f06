"""`telemetry.standard`: averages and maxima since the last push, sums and their deltas."""

from __future__ import annotations

from kafwire.telemetry.otlp import Kind, Point
from kafwire.telemetry.standard import Deltas, Reading, StandardMetrics, Timing, own_points

S = 1_000_000_000
P = "org.apache.kafka.producer"


def values(points: list[Point]) -> dict[str, float]:
    return {" ".join([point.name, *point.attributes.values()]): point.value for point in points}


def test_averages_and_maxima_are_those_since_the_last_reading() -> None:
    standard = StandardMetrics(0)
    first = Reading("producer", 2, {1: Timing(30, 3, 20)}, {"producer.record.queue.time": Timing(8, 4, 5)})
    assert values(list(standard.points(first, 10 * S))) == {
        f"{P}.connection.creation.rate": 0.2,
        f"{P}.connection.creation.total": 2,
        f"{P}.node.request.latency.avg 1": 10,
        f"{P}.node.request.latency.max 1": 20,
        f"{P}.record.queue.time.avg": 2,
        f"{P}.record.queue.time.max": 5,
    }
    second = Reading("producer", 3, {1: Timing(50, 4, 20)}, {"producer.record.queue.time": Timing(8, 4, 0)})
    assert values(list(standard.points(second, 12 * S))) == {
        f"{P}.connection.creation.rate": 0.5,
        f"{P}.connection.creation.total": 3,
        f"{P}.node.request.latency.avg 1": 20,
        f"{P}.node.request.latency.max 1": 20,
    }, "no record was in the queue meanwhile"


def test_each_broker_has_its_own_average() -> None:
    standard = StandardMetrics(0)
    assert list(standard.points(Reading("consumer", nodes={1: Timing(30, 3, 20), 2: Timing(8, 2, 5)}), 0))[1:] == [
        Point(f"org.apache.kafka.consumer.node.request.latency.{name}", value, attributes={"node_id": node})
        for node, name, value in (("1", "avg", 10), ("1", "max", 20), ("2", "avg", 4), ("2", "max", 5))
    ], "there is no rate of no time"


def test_no_average_is_negative_after_a_connection_is_gone() -> None:
    standard = StandardMetrics(0)
    list(standard.points(Reading("consumer", nodes={1: Timing(100, 100, 1) + Timing(3900, 100, 50)}), S))
    gone = list(standard.points(Reading("consumer", nodes={1: Timing(250, 250, 2)}), 2 * S))
    assert [point.name for point in gone if "latency" in point.name] == []
    new = values(list(standard.points(Reading("consumer", nodes={1: Timing(260, 251, 10)}), 3 * S)))
    assert new["org.apache.kafka.consumer.node.request.latency.avg 1"] == 10


def test_timings_together_have_the_longest_of_both() -> None:
    assert Timing(1, 2, 3) + Timing(4, 5, 6) == Timing(6, 6, 3) + Timing(-1, 1, 6) == Timing(5, 7, 6)


def test_sums_have_the_start_and_gauges_have_none() -> None:
    reading = Reading("consumer", totals={"consumer.t.total": 4.0}, gauges={"consumer.g": 0.5})
    found = {point.name: point for point in StandardMetrics(5 * S).points(reading, 6 * S)}
    total, gauge = found["org.apache.kafka.consumer.t.total"], found["org.apache.kafka.consumer.g"]
    assert (total.kind, total.value, total.start_ns, total.time_ns) == (Kind.CUMULATIVE, 4.0, 5 * S, 6 * S)
    assert (gauge.kind, gauge.value, gauge.start_ns, gauge.time_ns) == (Kind.GAUGE, 0.5, 0, 6 * S)


def point(value: float, time_ns: int, node: str = "1") -> Point:
    return Point("s", value, Kind.CUMULATIVE, {"node": node}, 1, time_ns)


def test_deltas_are_those_to_the_last_push_that_the_broker_got() -> None:
    deltas = Deltas()
    assert list(deltas.of([point(3, 10)])) == [Point("s", 3, Kind.DELTA, {"node": "1"}, 1, 10)]
    assert list(deltas.of([point(5, 20)])) == [Point("s", 5, Kind.DELTA, {"node": "1"}, 1, 20)], "it got nothing"
    deltas.got([point(5, 20)])
    assert list(deltas.of([point(9, 30), point(2, 30, "2")])) == [
        Point("s", 4, Kind.DELTA, {"node": "1"}, 20, 30),
        Point("s", 2, Kind.DELTA, {"node": "2"}, 1, 30),
    ]
    assert [each.value for each in deltas.of([point(2, 40)])] == [2], "the sum began again"


def test_gauges_have_no_deltas() -> None:
    deltas = Deltas()
    gauge = Point("g", 5.0, time_ns=10)
    deltas.got([gauge])
    assert list(deltas.of([gauge])) == [gauge]


def test_all_values_of_a_snapshot_have_kafwires_own_names() -> None:
    found = list(own_points({"acquired": 3, "partitions": 2, "state": "stable"}, 1, 2))
    assert found == [
        Point("kafwire.share.consumer.acquired", 3.0, Kind.CUMULATIVE, {}, 1, 2),
        Point("kafwire.share.consumer.partitions", 2.0, time_ns=2),
        Point("kafwire.share.consumer.state", 1.0, attributes={"state": "stable"}, time_ns=2),
    ]
