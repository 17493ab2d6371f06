"""What tests do with an embedded broker that runs."""

from __future__ import annotations

import threading

import pytest

import kafwire
from kafwire import protocol
from kafwire.testing import EmbeddedKafka
from tests.support import deadlines


def test_requests_that_meet_a_fault_are_waited_for() -> None:
    with EmbeddedKafka() as kafka, kafwire.Client(kafka.bootstrap) as client:
        fault = kafka.fail_next("DescribeCluster", "CLUSTER_AUTHORIZATION_FAILED", times=2)
        waiting = threading.Thread(target=kafka.wait_for_fault, args=(fault, 2))
        waiting.start()
        for _ in range(2):
            client.call(protocol.DescribeClusterRequest())
        deadlines.ended(waiting)
        kafka.wait_for_fault(fault, 2, timeout=0)  # it was met before
        with pytest.raises(TimeoutError, match="was met 2 of 3 times"):
            kafka.wait_for_fault(fault, 3, timeout=0)
