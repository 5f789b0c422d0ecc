"""Listening sockets, taken before anything else is opened: a port in use is told at once."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

from runnel.broker.configs.listeners import Listener
from runnel.broker.endpoints import Endpoint
from runnel.errors import AddressInUse, AddressUnusable

# A name may have an address that the machine has not, besides one that it has: `localhost` where IPv6 is off.
ABSENT = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def bind(listener: Listener, backlog: int) -> tuple[Listener, list[socket.socket]]:
    """Listen on every address of the listener's host that this machine has; the answer has the port that was taken."""
    taken: list[socket.socket] = []
    port = listener.port
    try:
        for family, address in _addresses(listener):
            try:
                one = _listening(family, (address[0], port, *address[2:]), backlog, both=listener.host == "")
            except OSError as error:
                if taken and error.errno in ABSENT:
                    continue
                raise
            taken.append(one)
            port = one.getsockname()[1]  # the next address of the same name gets the same
    except OSError as error:
        for one in taken:
            one.close()
        raise _error(listener, error) from error
    return listener._replace(port=port), taken


def _addresses(listener: Listener) -> list[tuple[socket.AddressFamily, tuple[object, ...]]]:
    if listener.host == "":
        if _has_six():
            return [(socket.AF_INET6, ("::", listener.port, 0, 0))]
        return [(socket.AF_INET, ("0.0.0.0", listener.port))]
    found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = {(family, address) for family, _, _, _, address in found}
    return sorted(addresses, key=lambda each: each[0] != socket.AF_INET)


def _has_six() -> bool:
    if not socket.has_ipv6:
        return False
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


def _listening(family: socket.AddressFamily, address: tuple[object, ...], backlog: int, *, both: bool) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if both else 1)
        one.bind(address)
        one.listen(backlog)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def _error(listener: Listener, error: OSError) -> AddressInUse | AddressUnusable:
    address = str(Endpoint(listener.host or "*", listener.port))
    if error.errno == errno.EADDRINUSE:
        return AddressInUse(address)
    return AddressUnusable(address, error.strerror or os.strerror(error.errno or 0))
