"""The app that a Python file declares."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import traceback
from importlib.machinery import PathFinder
from pathlib import Path

from runnel.app.app import App
from runnel.errors import Permanent, RunnelError

NO_SPARK_YET = "SESSION_OR_CONTEXT_NOT_EXISTS"  # what PySpark calls it
LATER = "give the type of a UDF as a value, such as udf(IntegerType()), or do it inside of the body"
INSTALLED = [sysconfig.get_path(each) for each in ("purelib", "platlib")]
OTHERS = {*sys.stdlib_module_names, "__main__", "runnel"}


class NoApp(Permanent):
    def __init__(self, path: str, what: str, *, hint: str) -> None:
        super().__init__(f"{path}: {what}", hint=hint)
        self.path = path


def load_app(path: Path) -> App:
    """Run the file, and give the one App that it makes. Modules beside it can be imported, as when Python runs it."""
    _check_file(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise NoApp(str(path), "it is no Python file", hint="its name must end with .py")
    _check_name(path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except RunnelError as error:
        raise NoApp(str(path), _at(error, path) + error.what, hint=error.hint) from error
    except Exception as error:
        if NO_SPARK_YET in str(error):
            raise NoApp(
                str(path), _at(error, path) + "Spark is not started yet, and this needs it", hint=LATER
            ) from None
        raise NoApp(str(path), _told(error, path), hint="mend the file; nothing was started") from error
    except SystemExit as error:
        if type(error) is not SystemExit:  # a signal that came meanwhile, and not the file
            raise
        hint = "let it declare the app and no more: it is imported, and the words behind `runnel` are not for it"
        raise NoApp(str(path), f"{_at(error, path)}it ends the program: {_said_by(error)}", hint=hint) from None
    apps = {id(each): each for each in vars(module).values() if isinstance(each, App)}
    if len(apps) != 1:
        found = "it makes no App" if not apps else f"it makes {len(apps)} Apps"
        raise NoApp(str(path), found, hint='one file, one app: app = App("shop")')
    return next(iter(apps.values()))


def _check_file(path: Path) -> None:
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        hint = "name a file that can be read by who runs the app"
        raise NoApp(str(path), f"it cannot be read: {error.strerror}", hint=hint) from None
    if not path.is_file():
        what = "it is a directory" if path.is_dir() else "there is no such file"
        raise NoApp(str(path), what, hint="name a Python file that makes an App")


def _check_name(path: Path) -> None:
    """It takes the place of the other module: whoever imports that one, now or later, would find the app."""
    if path.stem in OTHERS or _installed(path.stem) not in (None, path.resolve()):
        hint = f"give the file another name, such as {path.stem.strip('_')}_app.py"
        raise NoApp(str(path), f"Python has another module of this name, {path.stem}", hint=hint)


def _installed(name: str) -> Path | None:
    """The file of the module that is installed under this name."""
    found = PathFinder.find_spec(name, INSTALLED)
    return Path(found.origin).resolve() if found is not None and found.origin is not None else None


def _said_by(ended: SystemExit) -> str:
    return f"exit code {ended.code or 0}" if ended.code is None or isinstance(ended.code, int) else str(ended.code)


def _told(error: Exception, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:  # there is none where the bytes are no text
        is_elsewhere = error.filename is not None and Path(error.filename).resolve() != path.resolve()
        where = f"{error.filename}, " if is_elsewhere else ""
        return f"{where}line {error.lineno}: {type(error).__name__}: {error.msg}"
    said = error.msg if isinstance(error, SyntaxError) else error
    return f"{_at(error, path)}{type(error).__name__}: {said}"


def _at(error: BaseException, path: Path) -> str:
    """The line of the user's own file."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame.lineno for frame in frames if Path(frame.filename).resolve() == path.resolve()]
    return f"line {own[-1]}: " if own else ""
