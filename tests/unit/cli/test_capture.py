"""What `runnel capture run` tells on stderr."""

import threading
from types import SimpleNamespace

from runnel.capture.snapshots import Progress
from runnel.cli import capture


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
