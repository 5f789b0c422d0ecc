"""Makes the archive of Spark's classes, with the time that nobody else wants: `python -m runnel.pipeline.archiving`."""

from __future__ import annotations

import os

from runnel.pipeline.session import make_class_archive

LOWEST_PRIORITY = 19


def main() -> None:
    os.nice(LOWEST_PRIORITY)
    make_class_archive()


if __name__ == "__main__":
    main()
