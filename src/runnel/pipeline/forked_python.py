"""A Python for Spark: a fork of the process that has imported everything, or the real one.

Run by path, by the script that Spark takes for its Python, with that Python and its arguments: `forked_python.py PYTHON
-m pyspark.daemon ...`. It starts in a hundredth of a second since it imports nothing, not even Runnel. It hands the
arguments, the environment and the standard streams to the forker, and becomes a shell that waits until the fork has
ended: Java closes the pipes to a process that is gone. Where there is no forker, or it does not want to, it becomes the
real Python.
"""

import _socket
import os
import sys

VARIABLE = "RUNNEL_FORKER"  # the address, an abstract one: nothing that could be left in a directory
TAKEN = b"1"
STREAMS = (0, 1, 2)
WAIT = "exec < /dev/null > /dev/null 2>&1; read code <&{connection}; exit ${{code:-1}}"  # of the fork


def peer_of(connection: _socket.socket) -> int:
    """The user at the other end: anybody can find an abstract address."""
    told = connection.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)  # three numbers: process, user, group
    return int.from_bytes(told[4:8], sys.byteorder)


def packed(arguments: list[str]) -> bytes:
    """The arguments and the environment, as whoever starts a program gives them; before all, the length."""
    pairs = [name + b"=" + value for name, value in os.environb.items()]
    message = b"\0\0".join((b"\0".join(map(os.fsencode, arguments)), b"\0".join(pairs)))
    return len(message).to_bytes(4, sys.byteorder) + message


def ask(address: str, arguments: list[str]) -> _socket.socket | None:
    """The connection to the fork, which lasts as long as that; None if there is none."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.connect(b"\0" + address.encode())
        if peer_of(connection) != os.getuid():
            return None
        streams = b"".join(each.to_bytes(4, sys.byteorder) for each in STREAMS)
        message = packed(arguments)
        sent = connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
        connection.sendall(message[sent:])
        return connection if connection.recv(1) == TAKEN else None
    except OSError:
        return None


def main(python: str, arguments: list[str]) -> None:
    address = os.environ.get(VARIABLE)
    connection = ask(address, arguments) if address and arguments[:1] == ["-m"] else None
    if connection is None:
        os.execv(python, [python, *arguments])
    os.set_inheritable(connection.fileno(), True)
    os.execv("/bin/sh", ["sh", "-c", WAIT.format(connection=connection.fileno()), "python", *arguments])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
