"""A real PostgreSQL on this machine, of its own: what the tests of the view store run against.

    with postgres_server() as postgres:
        psycopg.connect(postgres.url)

It listens on a free port of the loopback interface, keeps its files in a temporary directory, answers when the block
begins, and is gone when the block ends. PostgreSQL refuses to run as root: then the user `postgres` runs it, which its
packages make. It is the one that is installed, or of the major version that is asked for: by `version`, or by
RUNNEL_POSTGRES in the environment (see `postgres_package`).
"""

import glob
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from tests.contract.views.postgres_package import packaged_programs
from tests.ports import free_port

HOST = "127.0.0.1"
USER = "runnel"
DATABASE = "runnel"
SERVER_USER = "postgres"
LIMIT = 120
ACCESS = f"""\
local all all trust
host all locked {HOST}/32 scram-sha-256
host all all {HOST}/32 trust
host replication all {HOST}/32 trust
"""


class PostgresUnavailable(Exception):
    """There is no PostgreSQL to start, or it does not start."""


@dataclass(frozen=True)
class Postgres:
    port: int
    directory: Path
    programs: Path

    @property
    def url(self) -> str:
        return self.url_of(USER)

    def url_of(self, user: str, database: str = DATABASE, password: str = "") -> str:
        return f"postgresql://{user}{f':{password}' if password else ''}@{HOST}:{self.port}/{database}"

    def run(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())

    def stop(self) -> None:
        _control(self, "stop", "--mode=fast")

    def start(self) -> None:
        _control(self, "start", f"--log={self.directory / 'server.log'}")


@contextmanager
def postgres_server(settings: Mapping[str, str] | None = None, version: str = "") -> Iterator[Postgres]:
    with tempfile.TemporaryDirectory(prefix="runnel-postgres-", dir="/tmp") as name:
        directory = Path(name)
        if os.geteuid() == 0:
            shutil.chown(directory, SERVER_USER, SERVER_USER)
        postgres = Postgres(free_port(), directory, programs(version))
        _make(postgres, settings or {"fsync": "off"})  # a server that is never cut from its power
        postgres.start()
        try:
            with psycopg.connect(postgres.url_of(USER, "postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {DATABASE}".encode())
            yield postgres
        finally:
            postgres.stop()


def programs(version: str = "") -> Path:
    """Where PostgreSQL's programs are: Debian keeps them off the path."""
    wanted = version or os.environ.get("RUNNEL_POSTGRES", "")
    if wanted:
        return packaged_programs(wanted)
    found = shutil.which("pg_ctl")
    if found:
        return Path(os.path.realpath(found)).parent
    candidates = sorted(glob.glob("/usr/lib/postgresql/*/bin/pg_ctl"))
    if not candidates:
        raise PostgresUnavailable(
            "no pg_ctl was found: install PostgreSQL (Debian, Ubuntu: apt-get install postgresql)"
        )
    return Path(candidates[-1]).parent


def _make(postgres: Postgres, settings: Mapping[str, str]) -> None:
    data = postgres.directory / "data"
    options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={USER}"]
    run_as_server([str(postgres.programs / "initdb"), f"--pgdata={data}", *options])
    lines = [
        f"port = {postgres.port}",
        f"listen_addresses = '{HOST}'",
        f"unix_socket_directories = '{postgres.directory}'",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    with open(data / "postgresql.conf", "a") as file:
        file.write("\n".join(lines) + "\n")
    (data / "pg_hba.conf").write_text(ACCESS)


def _control(postgres: Postgres, command: str, *options: str) -> None:
    run_as_server(
        [
            str(postgres.programs / "pg_ctl"),
            command,
            f"--pgdata={postgres.directory / 'data'}",
            "--wait",
            f"--timeout={LIMIT}",
            *options,
        ]
    )


def run_as_server(command: Sequence[str]) -> None:
    as_user = ["runuser", "-u", SERVER_USER, "--"] if os.geteuid() == 0 else []
    # A file takes what it says: the server would hold a pipe open for as long as it runs.
    with tempfile.TemporaryFile() as output:
        status = subprocess.run(
            [*as_user, *command], cwd="/", stdout=output, stderr=output, timeout=2 * LIMIT, check=False
        )
        if status.returncode:
            output.seek(0)
            raise PostgresUnavailable(f"{' '.join(command)} failed:\n{output.read().decode(errors='replace')}")
