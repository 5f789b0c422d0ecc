"""The APIs of our own: far from Kafka's keys, and described by hand."""

import pytest

from runnel.protocol.decode import read_response
from runnel.protocol.encode import response_encoder
from runnel.protocol.own import ANSWERED, OWN, OwnApi, api_of
from runnel.protocol.schemas import FOLDER, schema, versions
from runnel.protocol.versions import SERVED, Api

FAR = 10_000  # Kafka has given about a hundred keys in its first fifteen years


def test_the_keys_are_far_above_kafkas_and_fit_into_a_header() -> None:
    assert all(FAR < key < 2**15 for key in OWN)
    assert max(Api) < FAR


def test_every_api_of_our_own_is_answered_beside_kafkas() -> None:
    assert set(OWN) == set(OwnApi)
    assert {**SERVED, **OWN} == ANSWERED


@pytest.mark.parametrize("api", list(OwnApi), ids=lambda api: api.name)
def test_every_version_is_described(api: OwnApi) -> None:
    assert versions(api) == list(range(OWN[api].least, OWN[api].most + 1))
    assert (FOLDER / "own" / f"{api.name.lower()}.json").read_text().startswith(f'{{"api_key":{int(api)},')


def test_no_description_is_left_over() -> None:
    assert {path.stem for path in (FOLDER / "own").glob("*.json")} == {api.name.lower() for api in OwnApi}


def test_a_key_has_one_api() -> None:
    assert api_of(10_001) is OwnApi.COMPACT_TOPIC
    assert api_of(3) is Api.METADATA
    with pytest.raises(ValueError, match="9999"):
        api_of(9_999)


def test_what_an_answer_leaves_out_has_its_default() -> None:
    body = b"".join(map(bytes, response_encoder(OwnApi.COMPACT_TOPIC, 0)({"throttle_time": 0, "error_code": 3})))
    assert read_response(OwnApi.COMPACT_TOPIC, 0, body) == {
        "throttle_time": 0, "error_code": 3, "error_message": None, "clean_offset": -1, "clean_time": -1,
        "end_offset": -1, "records_before": 0, "records_after": 0, "bytes_before": 0, "bytes_after": 0,
    }  # fmt: skip
    assert [field.name for field in schema(OwnApi.COMPACT_TOPIC, 0).request] == ["name", "partition_index", "dry_run"]
