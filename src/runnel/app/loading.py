"""The app that a Python file declares."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path

from runnel.app.app import App
from runnel.errors import Permanent


class NoApp(Permanent):
    def __init__(self, path: str, what: str, *, hint: str) -> None:
        super().__init__(f"{path}: {what}", hint=hint)
        self.path = path


def load_app(path: Path) -> App:
    """Run the file, and give the one App that it makes. Modules beside it can be imported, as when Python runs it."""
    if not path.is_file():
        raise NoApp(str(path), "there is no such file", hint="name a Python file that makes an App")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoApp(str(path), "it is no Python file", hint="its name must end with .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except Permanent:
        raise
    except Exception as error:
        raise NoApp(str(path), _told(error, path), hint="mend the file; nothing was started") from error
    apps = {id(each): each for each in vars(module).values() if isinstance(each, App)}
    if len(apps) != 1:
        found = "it makes no App" if not apps else f"it makes {len(apps)} Apps"
        raise NoApp(str(path), found, hint='one file, one app: app = App("shop")')
    return next(iter(apps.values()))


def _told(error: Exception, path: Path) -> str:
    """What went wrong, at the line of the user's own file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    line = error.lineno if isinstance(error, SyntaxError) else own[-1] if own else None
    where = f"line {line}: " if line else ""
    return f"{where}{type(error).__name__}: {error}"
