import pytest
from hypothesis import given
from hypothesis import strategies as st

from runnel.graph.ddl import NoSchema, read_schema
from runnel.graph.types import SIMPLE, Array, Decimal, Field, Map, Simple, Struct

NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=1, max_size=8)
LEAVES = st.one_of(
    st.sampled_from(sorted(set(SIMPLE.values()))).map(Simple),
    st.integers(1, 38).flatmap(lambda digits: st.integers(0, digits).map(lambda scale: Decimal(digits, scale))),
)


def structs(inner):
    fields = st.lists(st.builds(Field, NAMES, inner, st.booleans()), min_size=1, max_size=3)
    return fields.map(lambda found: Struct(tuple(found)))


TYPES = st.recursive(
    LEAVES, lambda inner: st.one_of(inner.map(Array), st.builds(Map, inner, inner), structs(inner)), max_leaves=6
)


def test_columns_have_a_name_and_a_type():
    assert read_schema("page string, customer_id LONG, at timestamp NOT NULL") == (
        Field("page", Simple("string")),
        Field("customer_id", Simple("bigint")),
        Field("at", Simple("timestamp"), nullable=False),
    )


def test_a_name_may_be_quoted_and_followed_by_a_colon_and_a_comment():
    assert read_schema("`the ``page```: string COMMENT 'of the site, or none'") == (
        Field("the `page`", Simple("string")),
    )


def test_types_nest():
    assert read_schema("a array<struct<b: map<string, decimal(10,2)>, c: int not null>>") == (
        Field(
            "a",
            Array(
                Struct(
                    (
                        Field("b", Map(Simple("string"), Decimal(10, 2))),
                        Field("c", Simple("int"), nullable=False),
                    )
                )
            ),
        ),
    )


@given(
    st.lists(st.builds(Field, NAMES, TYPES, st.booleans()), min_size=1, max_size=4, unique_by=lambda f: f.name.lower())
)
def test_what_a_column_says_of_itself_is_read_back(fields):
    assert list(read_schema(", ".join(field.ddl for field in fields))) == fields


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "a column's name is missing before the end (character 1)"),
        ("page", "a type is missing at the end (character 5)"),
        ("page strin", "strin is no type of a column here (character 6)"),
        ("page string,", "a column's name is missing before the end (character 13)"),
        ("page string at timestamp", "expected a comma or the end, found at (character 13)"),
        ("a int, A long", "the column a is there twice (character 1)"),
        ("a struct<b:int,B:long>", "the column b is there twice (character 10)"),
        ("a array<int", "expected > at the end of the array, found the end (character 12)"),
        ("a map<string>", "expected a comma between key and value of the map, found > (character 13)"),
        ("a decimal(39,2)", "decimal(39,2) is none: 1 to 38 digits, the scale among them (character 3)"),
        ("a decimal(2,3)", "decimal(2,3) is none: 1 to 38 digits, the scale among them (character 3)"),
        ("a int not", "expected NULL behind NOT, found the end (character 10)"),
        ("a int; drop", "; is out of place (character 6)"),
        ("a interval", "interval is no type of a column here (character 3)"),
        ("a " + "array<" * 200, "types are nested more than 100 deep (character 603)"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text, says):
    with pytest.raises(NoSchema) as error:
        read_schema(text)
    assert str(error.value) == says
