"""A capture's process has no pandas in it, unless somebody asks for a DataFrame."""

import subprocess
import sys

PROGRAM = """
import sys
import pyarrow as pa
import runnel.cli.capture
from runnel.capture.outgoing import Outgoing
from runnel.capture.publisher import _columns
from runnel.cli.light_arrow import make_arrow_light
from runnel.client.column_bodies import column_bodies
assert "pandas" not in sys.modules, "importing the command loads it"

make_arrow_light()
out = Outgoing()
out.add("topic", "key", "value", 1)
for page in out.pages.values():
    assert list(column_bodies(*_columns(page)))
assert "pandas" not in sys.modules, "making records loads it"
assert pa.default_memory_pool().backend_name == "system"

assert list(pa.array([1, 2]).to_pandas()) == [1, 2]
assert "pandas" in sys.modules
make_arrow_light()
assert sys.modules["pandas"] is not None
"""


def test_pandas_is_loaded_when_it_is_asked_for_and_not_before():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
