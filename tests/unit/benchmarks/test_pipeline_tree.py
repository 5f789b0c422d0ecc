"""What a command cost is counted with all that it started."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
SPIN = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\n"
# A process that starts another and ends without waiting for it: the other one becomes an orphan.
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {SPIN!r}])"


def told(program):
    command = [sys.executable, "-m", "benchmarks.pipeline_tree", sys.executable, "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def test_the_processor_time_of_an_orphan_is_counted():
    code, cost = told(ORPHAN)
    assert code == 0
    assert cost["cpu"] >= 0.3


def test_the_exit_code_is_that_of_the_command():
    assert told("raise SystemExit(3)")[0] == 3
