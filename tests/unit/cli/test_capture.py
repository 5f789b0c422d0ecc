"""What `runnel capture` tells people: of its arguments, and on stderr while it runs."""

import threading
from types import SimpleNamespace

import pytest

from runnel.capture.opening import SCHEMES
from runnel.capture.snapshots import Progress
from runnel.cli import capture, capture_options


class Flickering(threading.Event):
    """Set while it is waited for, and not right after: the database goes away at once."""

    def wait(self, timeout=None):
        return True


def test_that_changes_are_read_is_told_once_also_if_they_are_not_for_a_while(monkeypatch, capsys):
    monkeypatch.setattr(capture, "PROGRESS_SECONDS", 0.001)
    looks, done = iter(range(3)), threading.Event()

    class Watching:
        @property
        def numbers(self):
            if next(looks, None) is None:
                done.set()
            return SimpleNamespace(events={})

    work = SimpleNamespace(progress=Progress(2, 2), is_streaming=Flickering())
    capture._tell(work, Watching(), done)
    assert capsys.readouterr().err == "reading changes: 2 rows are read\n"


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "sqlite"])
def test_the_help_names_the_address_of_every_kind_of_database(kind):
    (argument,) = capture_options.Url.__metadata__
    assert f"{kind}:" in argument.help
    assert kind in SCHEMES
