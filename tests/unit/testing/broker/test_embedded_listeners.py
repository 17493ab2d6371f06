"""Which listeners an embedded broker opens."""

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka


def test_security_closes_the_plain_listener() -> None:
    with EmbeddedKafka(security="SASL_PLAINTEXT") as kafka:
        assert [*kafka.state.nodes[1].addresses] == ["SASL_PLAINTEXT"]
        with kafwire.Client.from_config({"bootstrap.servers": kafka.bootstrap, **kafka.client_options()}) as client:
            assert [f"{each.host}:{each.port}" for each in client.metadata([]).brokers] == [kafka.bootstrap]
        with pytest.raises(ValueError, match="or plain=True"):
            _ = kafka.direct


def test_plain_opens_the_plain_listener_beside_a_secured_one() -> None:
    with EmbeddedKafka(security="SASL_PLAINTEXT", plain=True) as kafka, kafwire.Client(kafka.direct) as client:
        assert [*kafka.state.nodes[1].addresses] == ["PLAINTEXT", "SASL_PLAINTEXT"]
        assert [f"{each.host}:{each.port}" for each in client.metadata([]).brokers] == [kafka.direct]
        assert kafka.bootstrap != kafka.direct


def test_without_security_the_listener_is_plain() -> None:
    with EmbeddedKafka() as kafka:
        assert [*kafka.state.nodes[1].addresses] == ["PLAINTEXT"]
        assert kafka.bootstrap == kafka.direct


def test_a_broker_has_a_listener() -> None:
    with pytest.raises(ValueError, match="leaves no listener"):
        EmbeddedKafka(plain=False)
