"""What docs/howto/read-a-view.md says of other tools: its statement gives the same in every database."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

from runnel.views.store import Declared
from tests.contract.views.clicks import QUERY, marker

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "read-a-view.md"
SCHEMA = pa.schema([("page", pa.string()), ("minute", pa.int64()), ("count", pa.int64())])


def statement() -> str:
    (found,) = re.findall(r"^```sql\n(.*?)\n```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return str(found)


def filled(store) -> None:
    declared = Declared("clicks_per_minute", ("page", "minute"), SCHEMA)
    with store.writer(declared, QUERY) as writer:
        writer.claim()
        writer.apply(pa.table([["p1", "p2", "p1"], [0, 0, 1], [3, 30, 7]], SCHEMA), marker(0))


def test_the_statement_of_the_page_runs_in_every_database(store, place):
    filled(store)
    assert [(page, int(count)) for page, count in place.query(statement())] == [("p1", 10), ("p2", 30)]


@pytest.mark.servers
@pytest.mark.parametrize("kind", ["postgres"])
def test_psql_reads_a_view(store, place):
    filled(store)
    psql = shutil.which("psql")
    assert psql is not None, "a machine with PostgreSQL has psql, too"
    command = [psql, place.address, "--tuples-only", "--no-align", "--command", statement()]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.stdout.split(), run.stderr) == (["p1|10", "p2|30"], "")
