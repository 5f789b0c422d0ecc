"""Certificates for a test's own use: an authority, one for the broker that it vouches for, and one for a client.

Made with openssl, in the directory that is given; nobody outside of the test trusts them.
"""

import subprocess
from dataclasses import dataclass
from pathlib import Path

PASSWORD = "not-a-secret"


@dataclass(frozen=True)
class Certificates:
    """`ca` is what clients trust; `stranger` is an authority that vouched for nobody."""

    ca: Path
    stranger: Path
    keystore: Path
    truststore: Path
    client_certificate: Path
    client_key: Path


def make_certificates(directory: Path, host: str = "127.0.0.1") -> Certificates:
    directory.mkdir(parents=True, exist_ok=True)
    for name in ("ca", "stranger"):
        make_authority(directory, name)
    for name, extension in (("broker", f"subjectAltName=IP:{host}"), ("client", "extendedKeyUsage=clientAuth")):
        make_certificate(directory, name, extension)
    openssl(
        directory, "pkcs12", "-export", "-in", "broker.pem", "-inkey", "broker.key", "-certfile", "ca.pem",
        "-name", "broker", "-passout", f"pass:{PASSWORD}", "-out", "broker.p12",
    )  # fmt: skip
    run(
        directory, "keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", "ca.pem", "-storetype", "PKCS12",
        "-storepass", PASSWORD, "-keystore", "trusted.p12",
    )  # fmt: skip
    files = ("ca.pem", "stranger.pem", "broker.p12", "trusted.p12", "client.pem", "client.key")
    return Certificates(*(directory / name for name in files))


def make_authority(directory: Path, name: str = "ca") -> None:
    openssl(
        directory, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
        "-keyout", f"{name}.key", "-out", f"{name}.pem",
    )  # fmt: skip


def make_certificate(directory: Path, name: str, extension: str) -> None:
    """One that `ca` vouches for."""
    openssl(
        directory, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key",
        "-out", f"{name}.csr",
    )  # fmt: skip
    (directory / f"{name}.ext").write_text(extension)
    openssl(
        directory, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
        "-days", "2", "-extfile", f"{name}.ext", "-out", f"{name}.pem",
    )  # fmt: skip


def openssl(directory: Path, *arguments: str) -> None:
    run(directory, "openssl", *arguments)


def run(directory: Path, *command: str) -> None:
    done = subprocess.run(
        command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}"
