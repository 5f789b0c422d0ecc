"""What PostgreSQL's client library is told of a connection, and says when there is none: what may pass, and what mends
the rest.

A server that answers says FATAL; the library alone never does. The rest of it is in the server's own language. What it
means is in a code, which the library keeps to itself: before anybody gives up, the server is asked once more, and the
code is read where the library writes down what goes to and fro.

Of what the library finds by itself, all may pass that is not known to need mending, as where the address is wrong or
the two do not come to terms about certificates. Where an address has several hosts, it is enough that one of them may
come back. But a host's name may stand for several addresses, such as one of IPv6 that nobody listens at: what needs
mending at one of them needs it for the host.
"""

from __future__ import annotations

import os
import re
import select
import time
from typing import Final

from psycopg import pq

# A server that loses power says nothing: whoever waits for it would wait for hours. An address may say other values.
LIVENESS: Final = {
    "keepalives": 1,
    "keepalives_idle": 30,  # seconds
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}
FATAL: Final = "FATAL"
CODE: Final = re.compile(rb'\tErrorResponse\t.*? C "(\w{5})"')
PASSING: Final = (b"53", b"57")  # classes of codes: too many are there, it starts or stops
ASKING: Final = {pq.PollingStatus.READING: select.POLLIN, pq.PollingStatus.WRITING: select.POLLOUT}
SEVERAL, HOST, ADDRESS = "All failures were:", "- host: ", ", hostaddr: "  # of psycopg
NO_NAME: Final = "None,"
STARTING_OR_BUSY: Final = (
    "starting up",
    "shutting down",
    "system is not yet accepting",
    "too many",
    "remaining connection slots",
    "exceeds max_wal_senders",
    "recovery mode",
    "terminating connection",  # it is stopped, or lost a process, while it lets us in
    "canceling authentication due to timeout",
)
PASSWORD: Final = "see to the user and the password; PGPASSWORD or ~/.pgpass keep it out of the URL"
PORT: Final = "give a port from 1 to 65535, or none for 5432"
HOST_SPELLED: Final = "see to the host: between the dots of its name are 1 to 63 characters"
ONE_FOR_EACH: Final = "give one port for all hosts or one for each, and of hostaddr one for each"
AUTHORITY: Final = (
    "name the certificate of the authority that vouches for the server: sslrootcert=FILE, or sslrootcert=system; "
    "sslmode=require without sslrootcert believes any server"
)
HOST_NAME: Final = (
    "give the host by a name that is in the server's certificate; sslmode=verify-ca does not look at the name"
)
SERVER_TLS: Final = "set ssl = on there, with ssl_cert_file and ssl_key_file, or leave sslmode out of the address"
CLIENT_FILES: Final = "see to the files that sslcert and sslkey name"
SERVICE: Final = "see to the file of services that PGSERVICEFILE names, else ~/.pg_service.conf"
SETTINGS_OF_ADDRESS: Final = "see to the settings behind the question mark of the address"
MENDED_BY: Final = {
    "no password supplied": PASSWORD,
    "invalid port number": PORT,
    'connection option "port"': PORT,
    "Servname not supported": PORT,  # C's library, which psycopg asks first where the host has a name
    "Unrecognized service": PORT,  # another one
    "could not match": ONE_FOR_EACH,
    "'idna' codec": HOST_SPELLED,
    "weak sslmode": SETTINGS_OF_ADDRESS,
    "certificate verify failed": AUTHORITY,
    "root certificate": AUTHORITY,
    "does not match host name": HOST_NAME,
    "host name must be specified": HOST_NAME,
    "host name from server certificate": HOST_NAME,
    "server does not support SSL": SERVER_TLS,
    "private key file": CLIENT_FILES,
    "certificate file": CLIENT_FILES,
    "alert unknown ca": CLIENT_FILES,
    "alert bad certificate": CLIENT_FILES,
    "alert certificate": CLIENT_FILES,
    "SSL protocol version": SETTINGS_OF_ADDRESS,
    "channel binding": SETTINGS_OF_ADDRESS,
    "authentication method": SETTINGS_OF_ADDRESS,
    "GSSAPI encryption required": SETTINGS_OF_ADDRESS,
    " value: ": SETTINGS_OF_ADDRESS,
    'for connection option "': SETTINGS_OF_ADDRESS,
    "bad value for": SETTINGS_OF_ADDRESS,
    "invalid SCRAM": SETTINGS_OF_ADDRESS,
    "could not parse network address": SETTINGS_OF_ADDRESS,
    "definition of service": SERVICE,
}


def may_pass(reason: str) -> bool:
    """Whether the same attempt may succeed later."""
    return any(all(map(_may_pass, attempts)) for attempts in _attempts(reason))


def what_mends(reason: str) -> str | None:
    """Of what the library finds by itself; None if it is nothing that somebody can mend here."""
    if FATAL in reason:
        return None
    return next((hint for phrase, hint in MENDED_BY.items() if phrase in reason), None)


def lets_nobody_in(address: str, seconds: float) -> bool:
    """Whether a server that refused us refuses everybody for now, or lets us in by now."""
    if not hasattr(os, "memfd_create"):  # the library writes nothing down on other systems than Linux
        return False
    connection = pq.PGconn.connect_start(address.encode())
    try:
        codes = CODE.findall(_traced(connection, time.monotonic() + seconds))
        said = connection.error_message.decode("utf-8", "replace")
    finally:
        connection.finish()
    return codes[-1].startswith(PASSING) if codes else FATAL not in said


def _traced(connection: pq.abc.PGconn, deadline: float) -> bytes:
    """What goes to the server and what it says, until it has let us in or not."""
    with open(os.memfd_create("libpq"), "rb") as file:  # on no disk: there may be a password in it
        connection.trace(file.fileno())
        while (status := pq.PollingStatus(connection.connect_poll())) in ASKING:
            waiting = select.poll()
            waiting.register(connection.socket, ASKING[status])
            if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
                break
        connection.untrace()
        file.seek(0)
        return file.read()


def _may_pass(reason: str) -> bool:
    if any(phrase in reason for phrase in STARTING_OR_BUSY):
        return True
    return FATAL not in reason and what_mends(reason) is None


def _attempts(reason: str) -> list[list[str]]:
    """Those for each host: one for each of its addresses."""
    _, several, told = reason.partition(SEVERAL)
    if not several:
        return [[reason]]
    hosts: dict[str, list[str]] = {}
    for each in told.split(HOST)[1:]:
        host = each if each.startswith(NO_NAME) else each.partition(ADDRESS)[0]
        hosts.setdefault(host, []).append(each)
    return list(hosts.values())
