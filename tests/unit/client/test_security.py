"""How settings of TLS and SASL are read, and what is refused about them."""

from __future__ import annotations

import pickle

import pytest

from runnel.client.errors import InsecureConnection, InvalidSecurity, LoginFailed
from runnel.client.security import PLAIN, Security

LOGIN = {
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "scram-sha-512",
    "sasl.username": "shop",
    "sasl.password": "secret",
}


def test_nothing_said_is_plain():
    assert Security.of({}) == PLAIN
    assert (PLAIN.has_tls, PLAIN.has_login) == (False, False)


@pytest.mark.parametrize(
    ("protocol", "has_tls", "has_login"),
    [
        ("PLAINTEXT", False, False),
        ("ssl", True, False),
        ("sasl_plaintext", False, True),
        ("SASL_SSL", True, True),
    ],
)
def test_a_protocol_says_what_it_needs(protocol, has_tls, has_login):
    read = Security.of(LOGIN | {"security.protocol": protocol})
    assert (read.has_tls, read.has_login) == (has_tls, has_login)


def test_settings_of_others_are_passed_over():
    assert Security.of({"message.max.bytes": 5, "client.id": "x"}) == PLAIN


def test_all_settings_are_read():
    tls = {
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.key",
        "ssl.key.password": "hush",
        "enable.ssl.certificate.verification": "false",
        "ssl.endpoint.identification.algorithm": "none",
    }
    assert Security.of(LOGIN | tls) == Security(
        "SASL_SSL", "SCRAM-SHA-512", "shop", "secret", "ca.pem", "own.pem", "own.key", "hush",
        verifies=False, verifies_host=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"security.protocol": "TLS"}, 'setting security.protocol = "TLS" cannot be used'),
        ({"sasl.mechanisms": "GSSAPI"}, 'setting sasl.mechanisms = "GSSAPI" cannot be used'),
        ({"sasl.mechanisms": ""}, "setting sasl.mechanism cannot be used"),
        ({"sasl.username": ""}, "setting sasl.username cannot be used"),
        ({"ssl.keystore.location": "x"}, 'setting ssl.keystore.location = "x" cannot be used'),
        ({"ssl.endpoint.identification.algorithm": "x"}, "setting ssl.endpoint.identification.algorithm"),
        ({"enable.ssl.certificate.verification": "maybe"}, "setting enable.ssl.certificate.verification"),
    ],
)
def test_a_setting_that_cannot_be_kept_is_refused(changed, told):
    with pytest.raises(InvalidSecurity) as refused:
        Security.of(LOGIN | changed)
    assert told in refused.value.what
    assert refused.value.hint.startswith("expected ")


def test_passwords_are_not_shown():
    read = Security.of(LOGIN | {"ssl.key.password": "hush"})
    assert "secret" not in repr(read)
    assert "hush" not in repr(read)
    with pytest.raises(InvalidSecurity) as refused:
        Security.of({"ssl.keystore.password": "hush"})
    assert "hush" not in str(refused.value)


def test_it_can_be_sent_to_another_process():
    read = Security.of(LOGIN)
    assert pickle.loads(pickle.dumps(read)) == read


def test_files_that_cannot_be_read_are_told(tmp_path):
    broken = tmp_path / "broken.pem"
    broken.write_text("no certificate")
    for name in ("ssl.ca.location", "ssl.certificate.location"):
        for path in (tmp_path / "missing.pem", broken):
            with pytest.raises(InvalidSecurity, match=rf"setting {name} = \".*\.pem\" cannot be used"):
                Security.of({"security.protocol": "SSL", name: str(path)})._context()


def test_what_fails_is_told_with_the_broker_and_a_remedy():
    assert str(InsecureConnection("host:1", "self-signed certificate", hint="trust it")) == (
        "no safe connection to the broker at host:1: self-signed certificate (trust it)"
    )
    assert str(LoginFailed("host:1", "PLAIN", "shop", "go away")) == (
        'the broker at host:1 does not let "shop" in, by PLAIN: go away '
        "(see to sasl.mechanism, sasl.username and sasl.password)"
    )
