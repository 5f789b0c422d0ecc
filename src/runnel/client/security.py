"""How a connection to a broker is secured: plain, by TLS, with a login, or both. A value that can be pickled.

    Security.of({"security.protocol": "SASL_SSL", "ssl.ca.location": "ca.pem", "sasl.mechanism": "SCRAM-SHA-512",
                 "sasl.username": "shop", "sasl.password": "..."})

The names are those of librdkafka, so the same settings serve every client of Runnel. Others than those of security are
passed over; one of security that is not known here is an error, because leaving it out could make a connection less
safe than was asked for.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from runnel.client.errors import InsecureConnection, InvalidSecurity, LoginFailed, TimedOut, Unreachable
from runnel.client.frames import reason_of
from runnel.client.sasl import MECHANISMS, Login, LoginRefused, log_in

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OF_SECURITY = ("ssl.", "sasl.", "enable.ssl.", "security.", "enable.sasl.", "https.")
TRUE, FALSE = ("true", "1", "t"), ("false", "0", "f")
RENEWED_AT = 0.8  # of the time that a login holds


@dataclass(frozen=True)
class Security:
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    ca: str = ""  # a file of certificates that are trusted; empty: those of the system
    certificate: str = ""  # files of our own, where the broker asks who we are
    key: str = ""
    key_password: str = field(default="", repr=False)
    verifies: bool = True
    verifies_host: bool = True

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Security:
        """From settings in librdkafka's names; InvalidSecurity names one that does not fit."""
        return _read(settings)

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")

    def secure(
        self, connection: socket.socket, host: str, address: str, timeout: float
    ) -> tuple[socket.socket, float | None]:
        """The connection as it is to be used, and the seconds until it has to be another one, if ever.

        It is closed if it cannot be secured.
        """
        try:
            if self.has_tls:
                connection = self._encrypted(connection, host, address)
            return connection, self._logged_in(connection, address, timeout) if self.has_login else None
        except BaseException:
            connection.close()
            raise

    def _logged_in(self, connection: socket.socket, address: str, timeout: float) -> float | None:
        try:
            lifetime = log_in(connection, self._login, secrets.token_urlsafe(24), time.monotonic() + timeout)
        except LoginRefused as refused:
            raise LoginFailed(address, self.mechanism, self.username, str(refused)) from None
        except TimeoutError:
            raise TimedOut(address, "logging in") from None
        except OSError as error:
            raise Unreachable(address, reason_of(error)) from None
        except struct.error:
            raise LoginFailed(address, self.mechanism, self.username, "its answer cannot be read") from None
        return None if lifetime is None else lifetime * RENEWED_AT

    @property
    def _login(self) -> Login:
        return Login(self.mechanism, self.username, self.password)

    def _encrypted(self, connection: socket.socket, host: str, address: str) -> ssl.SSLSocket:
        try:
            return self._context().wrap_socket(connection, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            hint = "ssl.ca.location names the certificates that are trusted; the host must be in the broker's own"
            raise InsecureConnection(address, error.verify_message.rstrip("."), hint=hint) from None
        except ssl.SSLError as error:
            hint = "see whether this listener of the broker speaks TLS, and whether it asks for a certificate of ours"
            reason = (error.reason or str(error)).lower().replace("_", " ")
            raise InsecureConnection(address, reason, hint=hint) from None
        except TimeoutError:
            raise TimedOut(address, "agreeing on TLS") from None
        except OSError as error:
            raise Unreachable(address, reason_of(error)) from None

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
        except (OSError, ssl.SSLError) as error:
            _refuse("ssl.ca.location", self.ca, f"a readable file of PEM certificates: {_reason(error)}")
        context.check_hostname = self.verifies and self.verifies_host
        if not self.verifies:
            context.verify_mode = ssl.CERT_NONE
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key or None, self.key_password or None)
            except (OSError, ssl.SSLError) as error:
                expected = f"a PEM certificate, with its key in ssl.key.location: {_reason(error)}"
                _refuse("ssl.certificate.location", self.certificate, expected)
        return context


PLAIN = Security()


def _read(settings: Mapping[str, Any]) -> Security:
    left = {name: value for name, value in settings.items() if name.startswith(OF_SECURITY)}
    protocol = _one_of(left, "security.protocol", "PLAINTEXT", PROTOCOLS)
    mechanism = _one_of(left, "sasl.mechanism", "", MECHANISMS) or _one_of(left, "sasl.mechanisms", "", MECHANISMS)
    identification = str(left.pop("ssl.endpoint.identification.algorithm", "https")).lower()
    if identification not in ("https", "none"):
        _refuse("ssl.endpoint.identification.algorithm", identification, "https or none")
    read = Security(
        protocol,
        mechanism,
        str(left.pop("sasl.username", "")),
        str(left.pop("sasl.password", "")),
        str(left.pop("ssl.ca.location", "")),
        str(left.pop("ssl.certificate.location", "")),
        str(left.pop("ssl.key.location", "")),
        str(left.pop("ssl.key.password", "")),
        _flag(left, "enable.ssl.certificate.verification"),
        identification == "https",
    )
    for name, value in left.items():
        _refuse(name, value, "one of the settings of security that are known: see the reference of connections")
    if read.has_login:
        _refuse_half_a_login(read)
    return read


def _refuse_half_a_login(read: Security) -> None:
    if not read.mechanism:
        _refuse("sasl.mechanism", "", f"one of {', '.join(MECHANISMS)}, because security.protocol is {read.protocol}")
    if not read.username:
        _refuse("sasl.username", "", f"a name, because security.protocol is {read.protocol}")


def _one_of(settings: dict[str, Any], name: str, default: str, known: tuple[str, ...]) -> str:
    value = str(settings.pop(name, default)).upper()
    if value not in (*known, default):
        _refuse(name, value, f"one of {', '.join(known)}")
    return value


def _flag(settings: dict[str, Any], name: str) -> bool:
    value = str(settings.pop(name, True)).lower()
    if value not in TRUE + FALSE:
        _refuse(name, value, "true or false")
    return value in TRUE


def _reason(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)


def _refuse(name: str, value: object, expected: str) -> NoReturn:
    raise InvalidSecurity(name, value, expected)
