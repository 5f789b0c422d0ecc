"""The archive of Spark's classes is made in the background, and Java lives with it."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

LIMIT = 600.0
MAKE = """\
from runnel.pipeline.session import class_archive
archive = class_archive()
archive.make_later()
print(archive.path)
"""
USE = """\
from runnel.pipeline.session import class_archive, spark_session
import shlex
(option,) = shlex.split(class_archive().options())
spark = spark_session("test", master="local[1]")
told = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
assert option in list(told), list(told)
assert spark.range(3).count() == 3
spark.stop()
"""


@pytest.mark.soak
def test_one_that_is_made_in_the_background_is_used_by_the_next_start(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path / "my cache")}  # a path may have spaces
    environment.pop("RUNNEL_CLASS_ARCHIVE", None)
    made = run(MAKE, environment).strip()
    assert made.startswith(str(tmp_path))
    deadline = time.monotonic() + LIMIT
    while not os.path.exists(made):
        assert time.monotonic() < deadline, "it was not made"
        time.sleep(0.5)
    run(USE, environment)
    assert os.path.exists(made), "it was thrown away"


def run(program, environment):
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
