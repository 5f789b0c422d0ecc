import pytest
from kio.index import UnknownEntity, load_request_schema

from runnel.protocol.schemas import FOLDER, schema, versions
from runnel.protocol.versions import SERVED, Api

every_api = pytest.mark.parametrize("api", list(Api), ids=lambda api: api.name)


def kio_has(api: int, version: int) -> bool:
    try:
        load_request_schema(api, version)
    except UnknownEntity:
        return False
    return True


def test_every_api_that_has_a_name_is_served() -> None:
    assert set(SERVED) == set(Api)


@every_api
def test_the_newest_version_is_kafkas_newest(api: Api) -> None:
    assert kio_has(api, SERVED[api].most)
    assert not kio_has(api, SERVED[api].most + 1)


@every_api
def test_every_version_that_is_served_is_described(api: Api) -> None:
    assert versions(api) == list(range(SERVED[api].least, SERVED[api].most + 1))


@every_api
def test_a_description_belongs_to_its_api(api: Api) -> None:
    assert (FOLDER / f"{api.name.lower()}.json").read_text().startswith(f'{{"api_key":{int(api)},')


def test_no_description_is_left_over() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == {api.name.lower() for api in Api}


def test_the_answer_to_api_versions_has_the_oldest_header_in_every_version() -> None:
    assert not any(schema(Api.API_VERSIONS, version).flexible_answer_header for version in versions(Api.API_VERSIONS))


def test_a_flexible_answer_has_a_flexible_header_everywhere_else() -> None:
    others = [(api, version) for api in Api for version in versions(api) if api != Api.API_VERSIONS]
    assert all(schema(*each).flexible_answer_header == schema(*each).flexible_answer for each in others)


def test_versions_know_what_is_in_them() -> None:
    assert 4 in SERVED[Api.FETCH]
    assert 18 in SERVED[Api.FETCH]
    assert 3 not in SERVED[Api.FETCH]
    assert 19 not in SERVED[Api.FETCH]
    assert "4" not in SERVED[Api.FETCH]
