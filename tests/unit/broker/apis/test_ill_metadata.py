"""What is answered while the disk keeps the broker from knowing what is set: an error, and the connection stays."""

import pytest

from runnel.protocol.error_codes import ErrorCode
from runnel.protocol.versions import Api
from tests.unit.broker.transactions.stage import Stage

GROUP = 32


@pytest.fixture
def ill(transactional: Stage) -> Stage:
    """A node whose last change of its metadata got lost, and that cannot go on yet."""
    transactional.files.fail("sync", "/__runnel_metadata-0/", times=1_000)
    operation = {"key": "producer_byte_rate", "value": 5.0, "remove": False}
    entry = {"entity": [{"entity_type": "user", "entity_name": "ann"}], "ops": [operation]}
    body = {"entries": [entry], "validate_only": False}
    (lost,) = transactional.ask(Api.ALTER_CLIENT_QUOTAS, body)["entries"]
    assert lost["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    return transactional


def test_who_asks_for_quotas_is_told(ill: Stage) -> None:
    answer = ill.ask(Api.DESCRIBE_CLIENT_QUOTAS, {"components": [], "strict": False})
    assert answer["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_asks_for_the_configurations_of_a_group_is_told(ill: Stage) -> None:
    resource = {"resource_type": GROUP, "resource_name": "billing", "configuration_keys": None}
    body = {"resources": [resource], "include_synonyms": False, "include_documentation": False}
    (result,) = ill.ask(Api.DESCRIBE_CONFIGS, body)["results"]
    assert result["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR


def test_who_asks_what_has_configurations_is_told(ill: Stage) -> None:
    assert ill.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": []})["error_code"] == ErrorCode.KAFKA_STORAGE_ERROR
    topics = ill.ask(Api.LIST_CONFIG_RESOURCES, {"resource_types": [2]})
    assert {"resource_name": "orders", "resource_type": 2} in topics["config_resources"]
