from pathlib import Path

import pyspark
import pytest

from runnel.pipeline.spark_home import home_for

INSTALLED = Path(pyspark.__path__[0])


@pytest.fixture(autouse=True)
def no_home_of_the_user(monkeypatch):
    monkeypatch.delenv("SPARK_HOME", raising=False)


def test_the_home_has_what_spark_needs_but_not_the_zip(tmp_path):
    home = home_for("local[2]", tmp_path)
    assert (home / "jars").resolve() == (INSTALLED / "jars").resolve()
    assert (home / "bin" / "spark-submit").exists()
    assert not (home / "python").exists()
    assert home_for("local[*]", tmp_path) == home


def test_a_link_to_what_was_installed_before_is_replaced(tmp_path):
    home = home_for("local[2]", tmp_path)
    (home / "jars").unlink()
    (home / "jars").symlink_to(tmp_path)
    assert (home_for("local[2]", tmp_path) / "jars").resolve() == (INSTALLED / "jars").resolve()


def test_a_rehearsed_cluster_has_a_home_of_its_own_to_work_in(tmp_path):
    home = home_for("local-cluster[2,1,1024]", tmp_path)
    assert (home / "jars").resolve() == (INSTALLED / "jars").resolve()
    assert not (home / "python").exists()
    assert home != home_for("local-cluster[2,1,1024]", tmp_path)
    assert home.parent != tmp_path


@pytest.mark.parametrize("master", ["spark://host:7077", "yarn"])
def test_on_a_cluster_the_installed_one_is_taken(tmp_path, master):
    assert home_for(master, tmp_path) == INSTALLED


def test_the_user_s_own_stays(tmp_path, monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert home_for("local[2]", tmp_path) == Path("/opt/spark")


def test_where_nothing_can_be_written_the_installed_one_is_taken(tmp_path):
    (tmp_path / "file").write_text("")
    assert home_for("local[2]", tmp_path / "file") == INSTALLED
