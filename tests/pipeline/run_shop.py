"""Runs the app of these tests as `runnel run` does, and lets Spark's tasks write every batch.

python run_shop.py BOOTSTRAP DATA MASTER [VIEWS]
"""

import sys
from pathlib import Path

from runnel.app.loading import load_app
from runnel.app.runner import Runner, Running
from tests.pipeline.stage import APP

bootstrap, data, master, *views = sys.argv[1:]
running = Running(bootstrap, Path(data), next(iter(views), None), master=master, until_caught_up=True, parallel_from=1)
Runner(load_app(APP), running).run()
