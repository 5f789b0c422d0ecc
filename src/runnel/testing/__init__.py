"""What tests of programs on Runnel need: a clock that stands still, and a disk that fails and forgets."""

from runnel.testing.clock import StoppedClock
from runnel.testing.faulty_files import Crashed, FaultyFiles

__all__ = ["Crashed", "FaultyFiles", "StoppedClock"]
