"""`kafwire copy` between random steps: transactions, deletions, new partitions, kills, two copiers at a time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("pyiceberg")

from kafwire.testing.cluster import KafkaCluster
from tests.support.copy_model import CopyModel
from tests.support.copy_zygote import Copies
from tests.support.seeds import examples, of_test

pytestmark = pytest.mark.either_kafka

STEPS = 14


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    made = Copies(tmp_path_factory.mktemp("copies"))
    yield made
    made.close()


@pytest.mark.parametrize("target", ["folder", "iceberg", "topic"])
def test_each_committed_record_is_copied_once(
    cluster: KafkaCluster, topic_name: str, copies: Copies, target: str
) -> None:
    first = of_test()
    for seed in range(first, first + examples(1)):
        model = CopyModel(seed, cluster.bootstrap, copies, target, f"{topic_name[-20:]}-{seed}")
        try:
            for _ in range(STEPS):
                model.step()
            model.finish()
        except BaseException:
            print(f"seed {seed}: {model.log}")
            raise
        finally:
            model.close()
