"""Keyed results kept in a database that anything can read: the stores that views are written to and served from.

The package itself is what `runnel.views(...)` calls. Import its modules by their full names: they need pyarrow, which
`import runnel` does not wait for.
"""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    def __call__(self, *where: Any, **how: Any) -> Any:
        from runnel.views.serving import Views  # noqa: PLC0415  # it needs pyarrow

        return Views(*where, **how)


sys.modules[__name__].__class__ = _Package
