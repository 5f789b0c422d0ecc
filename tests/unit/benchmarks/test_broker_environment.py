"""The environment in which our broker is measured."""

from importlib import metadata

from benchmarks.broker_environment import installed_versions, users_variables


def test_the_versions_of_users_are_those_installed_here_without_our_own_package():
    lines = installed_versions().splitlines()
    assert f"uvloop=={metadata.version('uvloop')}" in lines
    assert not [line for line in lines if line.startswith("runnel==")]


def test_no_variable_of_ours_changes_how_python_runs_for_users(monkeypatch):
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("PATH", "/somewhere")
    variables = users_variables()
    assert variables["PATH"] == "/somewhere"
    assert not [name for name in variables if name.startswith("PYTHON")]
