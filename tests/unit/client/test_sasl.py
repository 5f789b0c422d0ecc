"""What is said at a login, held to the examples of the RFCs, and what is not believed."""

from __future__ import annotations

import hashlib
import socket
import struct
import threading
import time

import pytest

from runnel.client.sasl import Login, LoginRefused, dialogue_of, log_in

# The example of RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
FINAL = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
VERDICT = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
LOGIN = Login("SCRAM-SHA-256", "user", "pencil")


def scram(login=LOGIN, first=FIRST):
    dialogue = dialogue_of(login, NONCE)
    said = [next(dialogue)]
    said.append(dialogue.send(first.encode()))
    return dialogue, said


def test_plain_says_name_and_password():
    assert list(dialogue_of(Login("PLAIN", "tim", "tanstaaftanstaaf"), "")) == [b"\0tim\0tanstaaftanstaaf"]


def test_scram_says_what_the_rfc_says():
    dialogue, said = scram()
    assert said == [b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO", FINAL.encode()]
    with pytest.raises(StopIteration):
        dialogue.send(VERDICT)


def test_scram_knows_the_longer_hash():
    _, said = scram(LOGIN._replace(mechanism="SCRAM-SHA-512"))
    assert len(said[1]) > len(FINAL)
    assert hashlib.sha512().digest_size == 64


def test_a_name_with_commas_and_equals_signs_is_escaped():
    assert next(dialogue_of(LOGIN._replace(username="a,b=c"), NONCE)).startswith(b"n,,n=a=2Cb=3Dc,r=")


@pytest.mark.parametrize("verdict", [b"v=AAAA", b"", b"v=!", VERDICT[:-2]])
def test_a_broker_that_does_not_know_the_password_is_not_believed(verdict):
    dialogue, _ = scram()
    with pytest.raises(LoginRefused):
        dialogue.send(verdict)


def test_a_refusal_is_told_in_the_brokers_words():
    dialogue, _ = scram()
    with pytest.raises(LoginRefused, match="invalid-proof"):
        dialogue.send(b"e=invalid-proof")


@pytest.mark.parametrize(
    "first",
    [
        FIRST.replace("r=rOp", "r=xOp"),  # another nonce than ours
        FIRST.replace("i=4096", "i=1"),
        FIRST.replace("i=4096", "i=99999999999"),
        FIRST.replace("i=4096", "i=many"),
        FIRST.replace("s=W22", "s=!"),
        "",
    ],
)
def test_a_challenge_that_is_none_is_refused(first):
    with pytest.raises(LoginRefused):
        scram(first=first)


# --- over a socket


def answering(*bodies):
    """A broker that gives these answers, and what it was asked."""
    ours, theirs = socket.socketpair()
    heard = []

    def serve():
        with theirs, theirs.makefile("rb") as stream:
            for body in bodies:
                heard.append(stream.read(*struct.unpack(">i", stream.read(4))))
                theirs.sendall(struct.pack(">ii", len(body) + 4, 0) + body)

    thread = threading.Thread(target=serve)
    thread.start()
    return ours, thread, heard


def handshake(code, *names):
    listed = b"".join(struct.pack(">h", len(name)) + name for name in names)
    return struct.pack(">hi", code, len(names)) + listed


def answer(said, code=0, message=None, lifetime=0):
    text = struct.pack(">h", -1) if message is None else struct.pack(">h", len(message)) + message
    return struct.pack(">h", code) + text + struct.pack(">i", len(said)) + said + struct.pack(">q", lifetime)


def logged_in(login, *bodies):
    connection, thread, heard = answering(*bodies)
    with connection:
        try:
            return log_in(connection, login, NONCE, time.monotonic() + 60), heard
        finally:
            thread.join()


def test_a_login_that_does_not_end_has_no_time():
    found, heard = logged_in(LOGIN, handshake(0), answer(FIRST.encode()), answer(VERDICT))
    assert found is None
    assert [frame[:4] for frame in heard] == [b"\x00\x11\x00\x01", b"\x00\x24\x00\x01", b"\x00\x24\x00\x01"]


def test_a_login_that_ends_says_when():
    found, _ = logged_in(Login("PLAIN", "a", "b"), handshake(0), answer(b"", lifetime=5_000))
    assert found == 5.0


def test_a_mechanism_that_the_broker_does_not_know_is_told_with_those_it_knows():
    with pytest.raises(LoginRefused, match="the broker knows no SCRAM-SHA-256, but PLAIN and GSSAPI"):
        logged_in(LOGIN, handshake(33, b"PLAIN", b"GSSAPI"))


def test_a_broker_that_refuses_is_told():
    with pytest.raises(LoginRefused, match="go away"):
        logged_in(Login("PLAIN", "a", "b"), handshake(0), answer(b"", 58, b"go away"))
