"""Which listeners an embedded broker opens."""

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka


def test_a_secured_broker_without_its_plain_listener() -> None:
    with EmbeddedKafka(security="SASL_PLAINTEXT", plain=False) as kafka:
        assert [*kafka.state.nodes[1].addresses] == ["SASL_PLAINTEXT"]
        with kafwire.Client.from_config({"bootstrap.servers": kafka.bootstrap, **kafka.client_options()}) as client:
            assert [f"{each.host}:{each.port}" for each in client.metadata([]).brokers] == [kafka.bootstrap]
        with pytest.raises(ValueError, match="there is no plain listener"):
            _ = kafka.direct


def test_a_broker_has_a_listener() -> None:
    with pytest.raises(ValueError, match="leaves no listener"):
        EmbeddedKafka(plain=False)
