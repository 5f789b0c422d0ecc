"""The files that a session makes on this machine: as Hadoop makes them, and without a process for each; with a real
Spark.
"""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from runnel.pipeline.checkpoint_file import CheckpointFile
from runnel.pipeline.local_files import NAME, spare_chmods

pytestmark = pytest.mark.servers


def faults_of_ended_children(pid: int) -> int:
    """Every process takes some pages, and the system counts those of the ones that have ended for whoever started
    them.
    """
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[8])


@pytest.fixture
def hadoop(spark):
    return spark._jvm.org.apache.hadoop


@pytest.fixture
def files(spark, hadoop):
    """Those that Spark takes for a checkpoint."""
    return hadoop.fs.FileSystem.get(spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())


@pytest.fixture
def others(spark, hadoop):
    """Hadoop's own."""
    made = hadoop.fs.LocalFileSystem()
    made.initialize(spark._jvm.java.net.URI("file:///"), spark.sparkContext._jsc.hadoopConfiguration())
    return made


def write(hadoop, files, path: Path, content: bytes) -> None:
    stream = files.create(hadoop.fs.Path(str(path)), True)
    stream.write(content)
    stream.close()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="counts the processes in /proc")
def test_no_process_is_started_for_a_file(spark, hadoop, files, others, tmp_path):
    java = spark.sparkContext._gateway.proc.pid
    before = faults_of_ended_children(java)
    write(hadoop, files, tmp_path / "ours", b"content")
    assert faults_of_ended_children(java) == before
    write(hadoop, others, tmp_path / "theirs", b"content")
    assert faults_of_ended_children(java) > before


def test_a_file_and_its_checksums_are_as_hadoop_makes_them(hadoop, files, others, tmp_path):
    ours, theirs = CheckpointFile(tmp_path / "ours"), CheckpointFile(tmp_path / "theirs")
    write(hadoop, files, ours.path, b"content")
    write(hadoop, others, theirs.path, b"content")
    assert ours.is_whole
    assert ours.path.read_bytes() == theirs.path.read_bytes()
    assert ours.sums.read_bytes() == theirs.sums.read_bytes()
    for one, other in ((ours.path, theirs.path), (ours.sums, theirs.sums)):
        assert one.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("mode", [0o640, 0o755, 0o1777])
def test_permissions_are_what_they_are_told_to_be(hadoop, files, tmp_path, mode):
    (tmp_path / "directory").mkdir()
    path = hadoop.fs.Path(str(tmp_path / "directory"))
    files.setPermission(path, hadoop.fs.permission.FsPermission(oct(mode)[2:]))
    assert stat.S_IMODE((tmp_path / "directory").stat().st_mode) == mode


def test_it_takes_the_place_of_one_that_was_there_before(spark, hadoop, tmp_path):
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    hadoop.fs.FileSystem.getLocal(configuration).close()
    assert hadoop.fs.FileSystem.getLocal(configuration).getClass().getName() != NAME
    spare_chmods(spark, tmp_path)
    assert hadoop.fs.FileSystem.getLocal(configuration).getClass().getName() == NAME


def test_a_class_that_the_settings_name_stays(spark, hadoop, files, tmp_path):
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    configuration.set("fs.file.impl", "org.apache.hadoop.fs.LocalFileSystem")
    try:
        spare_chmods(spark, tmp_path)
        again = hadoop.fs.FileSystem.getLocal(configuration)
    finally:
        configuration.unset("fs.file.impl")
    assert again.equals(files)


def test_it_is_compiled_once_and_again_if_what_was_kept_is_damaged(spark, hadoop, tmp_path):
    configuration = spark.sparkContext._jsc.hadoopConfiguration()

    def made() -> str:
        hadoop.fs.FileSystem.getLocal(configuration).close()
        spare_chmods(spark, tmp_path)
        return str(hadoop.fs.FileSystem.getLocal(configuration).getClass().getName())

    assert made() == NAME
    (jar,) = tmp_path.iterdir()
    whole, at = jar.read_bytes(), jar.stat().st_mtime_ns
    assert made() == NAME
    assert jar.stat().st_mtime_ns == at
    jar.write_bytes(whole[:100])
    assert made() == NAME
    assert len(jar.read_bytes()) == len(whole)
    assert list(tmp_path.iterdir()) == [jar]
