import pytest

from runnel.protocol.schemas import NO_DEFAULT, Array, Field, schema
from runnel.protocol.versions import Api
from tools import write_schemas


@pytest.mark.parametrize(("path", "content"), list(write_schemas.files()), ids=lambda value: getattr(value, "stem", ""))
def test_the_file_is_what_make_schemas_writes(path, content: str) -> None:
    assert path.read_text() == content, "run `make schemas`"


def test_a_structure_knows_names_types_nulls_tags_and_defaults() -> None:
    fields = {field.name: field for field in schema(Api.FETCH, 13).request}
    assert fields["max_wait"] == Field("max_wait", "int32", False, None, NO_DEFAULT)
    assert fields["cluster_id"] == Field("cluster_id", "string", True, 0, None)
    assert fields["session_epoch"].default == -1
    assert isinstance(fields["topics"].kind, Array)


def test_an_unknown_version_is_not_described() -> None:
    with pytest.raises(KeyError):
        schema(Api.FETCH, 99)
