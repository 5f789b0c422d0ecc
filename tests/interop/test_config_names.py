"""Our catalogue of configurations against the classes of Apache Kafka that define them."""

import json

import pytest

from tests.interop.config_names import CATALOGUE, kafka_configs

pytestmark = pytest.mark.servers


def test_the_catalogue_has_what_kafka_defines():
    ours, kafkas = json.loads(CATALOGUE.read_text(encoding="utf-8")), kafka_configs()

    for kind in kafkas:
        assert ours[kind] == kafkas[kind], "python -m tests.interop.config_names writes it again"
    assert ours.keys() == kafkas.keys()
    assert len(kafkas["broker"]) > 300
