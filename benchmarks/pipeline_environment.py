"""The two sides of the pipeline's benchmarks: which Python runs each, and with what.

Ours is an environment as users have it, with Java's archive of Spark's classes made. The peer is plain PySpark 4.0.0
with the JVM connector for Kafka in an environment of its own; both are fetched once, beside what the tests fetch.
"""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.broker_environment import ROOT, users_program, users_variables
from benchmarks.broker_turns import say
from tests.interop.kafka_distribution import KafkaUnavailable, cache_directory, fetch_jars, find_java

SPARK = "4.0.0"
PEER = f"PySpark {SPARK}, JVM connector"
POM = Path(__file__).with_name("pipeline_connector.pom.xml")
MAKE_ARCHIVE = "from runnel.pipeline.session import make_class_archive; print(make_class_archive())"


@dataclass(frozen=True)
class Environment:
    """`variables` are those of its processes."""

    name: str
    python: Path
    variables: dict[str, str]


def ours() -> Environment:
    """Its archive of classes is there when this returns. RUNNEL_BENCH_PYTHON names another environment of ours."""
    chosen = os.environ.get("RUNNEL_BENCH_PYTHON")
    python = Path(chosen) if chosen else users_program().with_name("python")
    variables = users_variables() | {"PYTHONPATH": str(ROOT)}
    say("Java's archive of Spark's classes")
    done = subprocess.run(
        [str(python), "-c", MAKE_ARCHIVE], env=variables, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    )
    if done.stdout.strip() != "True":
        raise SystemExit("no archive of Spark's classes could be made, so a start would not be the one that counts")
    return Environment("Runnel", python, variables)


def peer() -> Environment:
    home = cache_directory() / f"pyspark-{SPARK}-{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    ready = home / "ready"
    if not ready.exists():
        say(f"making an environment with PySpark {SPARK}, in {home}")
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "--quiet", "install", f"pyspark=={SPARK}"]
        subprocess.run(pip, check=True, env=users_variables(), stdin=subprocess.DEVNULL)
        ready.touch()
    variables = {"PYSPARK_PYTHON": str(python), "PEER_JARS": ",".join(map(str, _jars()))}
    return Environment(PEER, python, users_variables() | variables)


def _jars() -> list[Path]:
    jars = cache_directory() / f"spark-connector-{SPARK}"
    try:
        find_java()
        if not jars.is_dir():
            say(f"fetching Spark's connector for Kafka, into {jars}")
            fetch_jars(jars, POM)
    except KafkaUnavailable as missing:
        raise SystemExit(str(missing)) from None
    return sorted(jars.glob("*.jar"))
