"""Runs an app as `runnel run` does, but loses patience with a broker sooner.

python run_life.py BOOTSTRAP DATA VIEWS UNTIL_CAUGHT_UP
"""

import sys
from contextlib import nullcontext
from pathlib import Path

from runnel import cli
from runnel.cli.ending import ending
from runnel.cli.running import log_of_an_app, run_app

APP = Path(__file__).with_name("life_app.py")
PATIENCE = 2.0


def run(**_: object) -> None:
    bootstrap, data, views, until_caught_up = sys.argv[1:]
    log_of_an_app(as_json=False)
    with ending(is_whole=not until_caught_up) as asked:
        run_app(
            APP,
            nullcontext(bootstrap),
            asked,
            data=Path(data),
            views=views or None,
            master="local[2]",
            until_caught_up=bool(until_caught_up),
            patience=PATIENCE,
        )


cli.app = run  # type: ignore[assignment]
cli.main()
