"""The digest of an app's code is the same wherever and whenever the same file is loaded."""

import os
import subprocess
import sys
from functools import partial

import pytest

from runnel import App
from runnel.app.code import code_of, modules_of

APP = """
from runnel import App
from runnel.app.code import code_of
app = App("shop")
clicks = app.stream("clicks", schema="page string")

def among(pages):
    def body(clicks):
        def is_told(page):
            return page in {"EUR", "USD", "GBP", "JPY", "CHF"} and (page, 1) in {("EUR", 1), ("USD", 2), ("GBP", 3)}
        return [each for each in clicks if each in {"a", "b", "c", "d", "e"} and is_told(each) and each in pages]
    return body

pages = frozenset({"a", "b", "c", "d"}), lambda: 1, object()
app.view(clicks, key="page", name="pages")(among(pages))
print(code_of(app.graph.outputs[0]))
"""


def digest(path, seed):
    environment = os.environ | {"PYTHONHASHSEED": str(seed), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run([sys.executable, path], env=environment, capture_output=True, text=True, check=True)
    return ended.stdout


def test_two_processes_tell_the_same_of_the_same_file(tmp_path):
    path = tmp_path / "shop.py"
    path.write_text(APP)
    assert len({digest(path, seed) for seed in (1, 2, 3)}) == 1


def code_with(body):
    app = App("shop")
    app.view(app.stream("clicks", schema="page string"), key="page", name="pages")(body)
    return code_of(app.graph.outputs[0])


def among(pages):
    return lambda clicks: clicks in pages


def has(page, clicks, *, times=1):
    return clicks.count(page) == times


def has_not(page, clicks):
    return page not in clicks


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (lambda page: page in {"EUR", "USD"}, lambda page: page in {"EUR", "GBP"}),
        (lambda page: [each in {"EUR"} for each in page], lambda page: [each in {"USD"} for each in page]),
        (lambda page: page in ("EUR", "USD"), lambda page: page in ("USD", "EUR")),
        (among(("EUR", 1)), among(("EUR", 2))),
        (among(frozenset({"EUR", "USD"})), among(frozenset({"EUR", "GBP"}))),
        (among("EUR"), among("USD")),
        (partial(has, "EUR"), partial(has, "USD")),
        (partial(has, "EUR"), partial(has, "EUR", times=2)),
        (partial(has, "EUR"), partial(has_not, "EUR")),
    ],
)
def test_what_a_body_compares_with_tells_it_from_its_sisters(one, other):
    assert code_with(one) != code_with(other)


def test_a_partial_is_of_the_file_of_its_function(tmp_path):
    path = tmp_path / "shop.py"
    found = []
    for number in (1, 2):
        head = f"from functools import partial\nNUMBER = {number}\n"
        path.write_text(head + APP.replace("(among(pages))", "(partial(lambda pages, clicks: NUMBER, pages))"))
        found.append(digest(path, seed=1))
    assert found[0] != found[1]


def test_the_module_of_a_partial_s_function_is_shipped_and_not_python_s_own():
    app = App("shop")
    app.view(app.stream("clicks", schema="page string"), key="page", name="pages")(
        partial(partial(has, "EUR"), times=2)
    )
    assert modules_of(app.graph.outputs) == {sys.modules[__name__]}
