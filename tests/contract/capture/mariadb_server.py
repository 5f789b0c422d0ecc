"""A real MariaDB on this machine, of its own: what the tests of its capture run against.

    with mariadb_server() as mariadb:
        pymysql.connect(**mariadb.account())

It listens on a free port of the loopback interface, keeps its files in a temporary directory, answers when the block
begins, and is gone when the block ends. It refuses to run as root: then `nobody` runs it. Where no MariaDB is
installed, Debian's packages are fetched and unpacked, which takes no rights, into `~/.cache/runnel` (of root into
`/var/tmp/runnel`), or where RUNNEL_CACHE points.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from tests.ports import free_port

HOST = "127.0.0.1"
USER, PASSWORD = "runnel", "s3cret"
SERVER_USER = "nobody"
LIMIT = 120
SEARCHED = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
PACKAGES = ("mariadb-server-core", "mariadb-common", "liburing2", "libaio1", "libnuma1", "libpmem1", "libdaxctl1",
            "libndctl6", "libsnappy1v5", "libfmt9", "libpcre2-8-0")  # fmt: skip
SETTINGS = {
    "log_bin": "mariadb-bin",
    "server_id": "1",
    "binlog_format": "ROW",
    "binlog_row_metadata": "FULL",
    "character_set_server": "utf8mb4",
    "skip_name_resolve": "ON",
    "performance_schema": "OFF",
    "innodb_buffer_pool_size": "64M",
    "innodb_log_file_size": "16M",
    "innodb_flush_log_at_trx_commit": "0",  # a server that is never cut from its power
    "sync_binlog": "0",
    "max_connections": "60",
}


class MariadbUnavailable(Exception):
    """There is no MariaDB to start, or it does not start."""


@dataclass
class Mariadb:
    port: int
    directory: Path
    settings: Mapping[str, str]
    _process: Any = field(default=None)

    def url_of(self, database: str, user: str = USER, password: str = PASSWORD) -> str:
        return f"mariadb://{user}:{password}@{HOST}:{self.port}/{database}"

    def account(self, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
        return {"host": HOST, "port": self.port, "user": user, "password": password, "autocommit": True}

    def run(self, *statements: str) -> None:
        with closing(pymysql.connect(**self.account())) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    def start(self) -> None:
        command = [_program(), "--no-defaults", *_options(self)]
        with open(self.directory / "server.log", "ab") as log:
            self._process = subprocess.Popen(_as_server(command), stdout=log, stderr=log, cwd="/", env=_environment())
        deadline = time.monotonic() + LIMIT
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                said = (self.directory / "server.log").read_text(errors="replace")
                raise MariadbUnavailable(f"the server does not start:\n{said[-4000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait(LIMIT)

    def _answers(self) -> bool:
        """Not somebody else, who took the port before."""
        try:
            with closing(pymysql.connect(**self.account())) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT @@socket")
                return bool(cursor.fetchone() == (str(self.directory / "socket"),))
        except pymysql.MySQLError:
            return False


@contextmanager
def mariadb_server(settings: Mapping[str, str] | None = None) -> Iterator[Mariadb]:
    with tempfile.TemporaryDirectory(prefix="runnel-mariadb-", dir="/tmp") as name:
        directory = Path(name)
        (directory / "users.sql").write_text(
            f"CREATE USER IF NOT EXISTS '{USER}'@'%' IDENTIFIED BY '{PASSWORD}';\n"
            f"GRANT ALL ON *.* TO '{USER}'@'%' WITH GRANT OPTION;\n"
        )
        if os.geteuid() == 0:
            for each in (directory, directory / "users.sql"):
                shutil.chown(each, SERVER_USER)
        _make(directory)
        mariadb = Mariadb(free_port(), directory, {**SETTINGS, **(settings or {})})
        mariadb.start()
        try:
            yield mariadb
        finally:
            mariadb.stop()


def _make(directory: Path) -> None:
    """What mariadb-install-db does, which needs programs of other packages: the server reads its own tables' SQL."""
    data = directory / "data"
    data.mkdir()
    if os.geteuid() == 0:
        shutil.chown(data, SERVER_USER)
    scripts = _share()
    sql = "CREATE DATABASE mysql;\nUSE mysql;\nSET @auth_root_socket = NULL;\n" + "".join(
        (scripts / f"mysql_{name}.sql").read_text()
        for name in ("system_tables", "performance_tables", "system_tables_data")
    )
    options = [f"--datadir={data}", f"--tmpdir={directory}", "--innodb-log-file-size=16M", *_places()]
    command = _as_server([_program(), "--no-defaults", "--bootstrap", "--silent-startup", *options])
    status = subprocess.run(
        command, input=sql.encode(), capture_output=True, cwd="/", env=_environment(), timeout=LIMIT, check=False
    )
    if status.returncode:
        raise MariadbUnavailable(f"{' '.join(command)} failed:\n{status.stderr.decode(errors='replace')[-4000:]}")


def _options(mariadb: Mariadb) -> list[str]:
    return [
        f"--datadir={mariadb.directory / 'data'}",
        f"--port={mariadb.port}",
        f"--bind-address={HOST}",
        f"--socket={mariadb.directory / 'socket'}",
        f"--pid-file={mariadb.directory / 'pid'}",
        f"--init-file={mariadb.directory / 'users.sql'}",
        f"--tmpdir={mariadb.directory}",
        *_places(),
        *(f"--{name.replace('_', '-')}={value}" for name, value in mariadb.settings.items()),
    ]


def _as_server(command: Sequence[str]) -> list[str]:
    return ["runuser", "-u", SERVER_USER, "--", *command] if os.geteuid() == 0 else list(command)


def _program() -> str:
    base = _base()
    if base is not None:
        return str(base / "sbin/mariadbd")
    found = shutil.which("mariadbd", path=SEARCHED)
    assert found is not None
    return found


def _share() -> Path:
    """Where its scripts and messages are."""
    found = [base / "share/mysql" for base in (_base(), Path("/usr"), Path("/usr/local")) if base is not None]
    return next(path for path in found if (path / "mysql_system_tables.sql").exists())


def _places() -> list[str]:
    base = _base()
    return [] if base is None else [f"--basedir={base}", f"--lc-messages-dir={base / 'share/mysql'}"]


def _base() -> Path | None:
    """Where the unpacked packages are; None where MariaDB is installed."""
    if shutil.which("mariadbd", path=SEARCHED):
        return None
    # root's home is closed to the server's user
    usual = Path("/var/tmp/runnel") if os.geteuid() == 0 else Path.home() / ".cache" / "runnel"
    cache = Path(os.environ.get("RUNNEL_CACHE") or usual) / "mariadb"
    if not (cache / "usr/sbin/mariadbd").exists():
        _unpack(cache)
    return cache / "usr"


def _unpack(target: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        raise MariadbUnavailable("no mariadbd was found: install MariaDB (Debian, Ubuntu: mariadb-server-core)")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        known = subprocess.run(["apt-cache", "pkgnames"], capture_output=True, text=True, check=True).stdout.split()
        wanted = [package for package in PACKAGES if package in known]
        if PACKAGES[0] not in wanted:
            raise MariadbUnavailable("apt-get knows no package mariadb-server-core: run apt-get update")
        subprocess.run(["apt-get", "download", "--quiet", *wanted], cwd=name, check=True, capture_output=True)
        for package in sorted(Path(name).glob("*.deb")):
            subprocess.run(["dpkg-deb", "--extract", str(package), f"{name}/unpacked"], check=True)
        os.chmod(Path(name) / "unpacked", 0o755)
        (Path(name) / "unpacked").rename(target)


def _environment() -> dict[str, str]:
    base = _base()
    if base is None:
        return dict(os.environ)
    libraries = sorted({str(path.parent) for path in base.glob("lib/**/*.so*")})
    return {**os.environ, "LD_LIBRARY_PATH": ":".join(libraries)}
