"""A login at a broker, by SASL: PLAIN, or SCRAM with SHA-256 or SHA-512 (RFC 5802, RFC 7677).

A mechanism is a generator: it yields what the client says, is sent what the broker answers, and ends when the broker is
believed. It does no I/O, and it draws its nonce from what it is given. With SCRAM the password does not leave this
process, and the broker has to prove that it knows it, too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import socket
import struct
from collections.abc import Generator
from typing import NamedTuple

from runnel.client.frames import receive
from runnel.protocol.frames import FIXED, LENGTH

Dialogue = Generator[bytes, bytes, None]

HANDSHAKE, HANDSHAKE_VERSION = 17, 1
AUTHENTICATE, AUTHENTICATE_VERSION = 36, 1
CLIENT_ID = b"runnel"
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
MECHANISMS = ("PLAIN", *HASHES)
LEAST_ROUNDS = 4096  # a broker that asks for fewer would make guessing the password easy
MOST_ROUNDS = 10_000_000  # and one that asks for more would keep us busy
SHORT = struct.Struct(">h")


class LoginRefused(Exception):
    """By the broker, or by us because the broker does not know the password."""


class Login(NamedTuple):
    mechanism: str
    username: str
    password: str


def log_in(connection: socket.socket, login: Login, nonce: str, deadline: float) -> float | None:
    """Log in on a new connection; the seconds that the login holds, or None if it does not end."""
    answer = _ask(connection, HANDSHAKE, HANDSHAKE_VERSION, _text(login.mechanism), deadline)
    (code,) = SHORT.unpack_from(answer)
    if code:
        raise LoginRefused(f"the broker knows no {login.mechanism}, but {_mechanisms(answer)}")
    lifetime = 0
    dialogue = dialogue_of(login, nonce)
    said = next(dialogue)
    while True:
        answer = _ask(connection, AUTHENTICATE, AUTHENTICATE_VERSION, LENGTH.pack(len(said)) + said, deadline)
        heard, lifetime = _heard(answer)
        try:
            said = dialogue.send(heard)
        except StopIteration:
            return lifetime / 1_000 if lifetime > 0 else None


def dialogue_of(login: Login, nonce: str) -> Dialogue:
    if login.mechanism == "PLAIN":
        return _plain(login)
    return _scram(login, nonce, HASHES[login.mechanism])


def _plain(login: Login) -> Dialogue:
    yield f"\0{login.username}\0{login.password}".encode()


def _scram(login: Login, nonce: str, kind: str) -> Dialogue:
    name = login.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode("utf-8", "replace")
    told = _fields(challenge)
    rounds = int(told.get("i", "0")) if told.get("i", "0").isdecimal() else 0
    if not told.get("r", "").startswith(nonce) or not LEAST_ROUNDS <= rounds <= MOST_ROUNDS:
        raise LoginRefused("the broker's challenge is none of SCRAM")
    salted = hashlib.pbkdf2_hmac(kind, login.password.encode(), _decoded(told.get("s", "")), rounds)
    last = f"c=biws,r={told['r']}"  # "n,,": no channel binding
    signed = f"{first},{challenge},{last}".encode()
    key = hmac.digest(salted, b"Client Key", kind)
    signature = hmac.digest(hashlib.new(kind, key).digest(), signed, kind)
    proof = bytes(mine ^ signs for mine, signs in zip(key, signature, strict=True))
    verdict = _fields((yield f"{last},p={base64.b64encode(proof).decode()}".encode()).decode("utf-8", "replace"))
    if "e" in verdict:
        raise LoginRefused(verdict["e"])
    expected = hmac.digest(hmac.digest(salted, b"Server Key", kind), signed, kind)
    if not hmac.compare_digest(_decoded(verdict.get("v", "")), expected):
        raise LoginRefused("the broker does not know the password itself: it may be another one that poses as it")


def _fields(message: str) -> dict[str, str]:
    return dict(part.split("=", 1) for part in message.split(",") if "=" in part)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise LoginRefused("the broker's answer is none of SCRAM") from None


# --- the two messages, which no broker asks to be compact


def _ask(connection: socket.socket, api_key: int, version: int, body: bytes, deadline: float) -> bytes:
    whole = FIXED.pack(api_key, version, 0, len(CLIENT_ID)) + CLIENT_ID + body
    connection.sendall(LENGTH.pack(len(whole)) + whole)
    return bytes(receive(connection, deadline))[LENGTH.size :]  # without the correlation id


def _text(text: str) -> bytes:
    return SHORT.pack(len(text)) + text.encode()


def _mechanisms(answer: bytes) -> str:
    (count,), position, names = LENGTH.unpack_from(answer, 2), 6, []
    for _ in range(count):
        (size,) = SHORT.unpack_from(answer, position)
        position += SHORT.size + size
        names.append(answer[position - size : position].decode("utf-8", "replace"))
    return " and ".join(names) or "none at all"


def _heard(answer: bytes) -> tuple[bytes, int]:
    """What the broker says in the mechanism's words, and the milliseconds that a login holds."""
    code, size = struct.unpack_from(">hh", answer)
    position = 4 + max(size, 0)
    if code:
        raise LoginRefused(answer[4:position].decode("utf-8", "replace") or f"error {code}")
    (size,) = LENGTH.unpack_from(answer, position)
    position += LENGTH.size + max(size, 0)
    (lifetime,) = struct.unpack_from(">q", answer, position)
    return answer[position - max(size, 0) : position], lifetime
