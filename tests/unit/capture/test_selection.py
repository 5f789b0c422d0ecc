"""What leaves a database."""

import hashlib
import json

import pytest

from runnel.capture.envelope import Envelope
from runnel.capture.errors import InvalidChoice
from runnel.capture.events import Change
from runnel.capture.outgoing import Outgoing
from runnel.capture.selection import Hashed, Masked, Selection, column_expression, table_expression
from runnel.capture.tables import TableId
from tests.unit.capture.customers import CUSTOMERS, LOOSE, NoSource

ORDERS, CLICKS = TableId("main", "orders"), TableId("main", "Clicks")
ANNE = (1, "Anne", "anne@example.org")


def chosen(**options):
    return [table.name for table in (ORDERS, CLICKS) if Selection(**options).has(table)]


def leaving(selection, table=CUSTOMERS):
    out = Outgoing()
    Envelope("p", NoSource(), selection).change(Change(table, "c", None, ANNE, "", 0), out, 0)
    (page,) = out.pages.values()
    return page.keys[0], json.loads(page.values[0])["after"]


@pytest.mark.parametrize(
    "choice",
    [
        {"hidden": {r"public\.customers\.fone": Masked()}},
        {"columns": [r"public\.customers\.fone"]},
        {"without_columns": [r"public\.customers\.fone"]},
        {"rows": {r"public\.customer": bool}},
        {"keys": {r"public\.customer": ["id"]}},
    ],
)
def test_a_choice_that_fits_nothing_is_refused(choice):
    with pytest.raises(InvalidChoice, match="that is captured fits it"):
        Selection(**choice).check([CUSTOMERS])


def test_a_choice_that_fits_something_is_not():
    Selection(hidden={r".*\.email": Masked()}, rows={r"public\..*": bool}).check([CUSTOMERS])


def test_tables_are_chosen_by_expressions_for_whole_names_of_any_case():
    assert chosen() == ["orders", "Clicks"]
    assert chosen(tables=[r"main\.orders"]) == ["orders"]
    assert chosen(tables=[r"MAIN\.CLICKS"]) == ["Clicks"]
    assert chosen(tables=["orders"]) == []
    assert chosen(tables=["main.*"], without_tables=[r"main\.c.*"]) == ["orders"]


def test_expressions_that_fit_no_table_are_known():
    assert Selection(tables=["main.ord.*", "main.nothing"]).unmatched([ORDERS, CLICKS]) == ["main.nothing"]


def test_columns_are_chosen_and_a_key_stays_whole():
    assert leaving(Selection(columns=[r"public\.customers\.first_name"])) == ('{"id":1}', {"first_name": "Anne"})
    assert leaving(Selection(without_columns=[r".*\.email", r".*\.id"])) == ('{"id":1}', {"first_name": "Anne"})


def test_columns_are_masked_or_hashed():
    digest = hashlib.sha256(b"pepperanne@example.org").hexdigest()
    hidden = {r".*\.first_name": Masked(4), r".*\.email": Hashed("pepper")}
    assert leaving(Selection(hidden=hidden))[1] == {"id": 1, "first_name": "****", "email": digest}


def test_a_hashed_column_is_hashed_in_the_key_too():
    key, row = leaving(Selection(hidden={r".*\.id": Hashed("")}))
    digest = hashlib.sha256(b"1").hexdigest()
    assert (json.loads(key)["id"], row["id"]) == (digest, digest)


def test_a_table_without_a_key_can_be_given_one():
    assert leaving(Selection(), LOOSE)[0] is None
    assert (
        leaving(Selection(keys={r"public\.loose": ["email", "id"]}), LOOSE)[0] == '{"email":"anne@example.org","id":1}'
    )


def test_a_name_alone_is_a_table_of_any_schema_and_a_column_of_such_a_table():
    assert table_expression("orders") == r".*\.orders"
    assert table_expression(r"main\.orders") == r"main\.orders"
    assert column_expression("orders.note") == r".*\.orders.note"
    assert column_expression("main.orders.note") == "main.orders.note"


def test_mistakes_are_told():
    with pytest.raises(InvalidChoice, match=r'table "main\.\(" cannot be used: .*missing'):
        Selection(tables=["main.("])
    with pytest.raises(InvalidChoice, match=r'key column "nothing" cannot be used: .*loose has id, first_name'):
        Selection(keys={r"public\.loose": ["nothing"]}).of(LOOSE)
