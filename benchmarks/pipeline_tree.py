"""Runs a command and tells what it cost: python -m benchmarks.pipeline_tree COMMAND ...

Prints JSON: the seconds that passed, and the processor time of the command with all processes that it started, whoever
of them started whom and whoever ended first. Orphans become children of this process, which waits for each of them: the
kernel adds the time of a process to that of whoever waited for it.
"""

import ctypes
import json
import os
import resource
import subprocess
import sys
import time

SUBREAPER = 36  # of prctl


def main(command: list[str]) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    begin = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    codes: dict[int, int] = {}
    ended = begin
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            break
        codes[pid] = os.waitstatus_to_exitcode(status)
        if pid == process.pid:
            ended = time.perf_counter()
    process.returncode = codes[process.pid]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"seconds": ended - begin, "cpu": used.ru_utime + used.ru_stime}))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
