"""Apache Kafka's own tools, for tests that let Kafka judge our files.

`kafka_classpath()` gives the jars that `kafka/pom.xml` lists. Maven fetches them once, into
`~/.cache/runnel`, or where RUNNEL_CACHE points. `java_command()` and `java_environment()` start a class of them;
`kafka_server.py` starts the server, and `kafka_archive.py` makes them start quicker. Kafka Streams and Kafka Connect
are parts with jars of their own, and `compiled()` makes classes of a program that uses a part.

`dump_segments()` lets Kafka's DumpLogSegments read files and tells what is wrong with them. The tool ends
with 0 after most findings and passes over some faults, so `Dump.problems` trusts only lines that it knows
to be harmless, and counts the entries of the indexes itself. What no checksum and no other file covers
stays invisible: the leader epoch of a batch, the numbers in a transaction index, whatever is missing at
the end of a log.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

VERSION = "4.3.0"
OLDEST_JAVA = 17
# Each has a folder here, in which `pom.xml` lists its jars, and a folder of this name in the cache.
PARTS = {"kafka": "kafka", "streams": "kafka-streams", "connect": "kafka-connect"}
TOOL = "org.apache.kafka.tools.DumpLogSegments"
# A dump is over before optimizing it would pay.
JVM_OPTIONS = ("-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# The JVM announces these on stderr, where only problems may stand.
JVM_VARIABLES = {"JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"}

INDEX_ENTRY = re.compile(r"offset: (\d+) position: (\d+)")
HARMLESS = {
    ".log": re.compile(r"Log starting offset: \d+|baseOffset: .* magic: 2 .* isvalid: true|\| offset: \d+ .*"),
    ".index": re.compile(rf"{INDEX_ENTRY.pattern}|.* is empty\."),
    ".timeindex": re.compile(r"timestamp: \d+ offset: \d+"),
    ".txnindex": re.compile(r"version: 0 producerId: .*"),
    ".snapshot": re.compile(r"producerId: .*"),
}
ENTRY_SIZE = {".index": 8, ".timeindex": 12, ".txnindex": 34}
STEP = re.compile(r"  (-?\d+) is followed by (\d+)")
STACK = re.compile(r"\s+(at |\.\.\. )")


class KafkaUnavailable(Exception):
    """Kafka cannot run on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Dump:
    """What DumpLogSegments said about files of these sizes."""

    sizes: dict[Path, int]
    exit_code: int
    output: str
    errors: str
    gaps_allowed: bool = False

    @property
    def problems(self) -> list[str]:
        """Every problem found, one line each; empty when nothing is wrong."""
        found = [] if self.exit_code == 0 else [f"DumpLogSegments ended with {self.exit_code}"]
        found += self._problems_on_stderr()
        for file in self.sizes:
            found += [f"{file}: {problem}" for problem in self._problems_of(file)]
        return found

    def lines_of(self, file: Path) -> list[str]:
        """What the tool printed about one file: its batches and records, or its entries."""
        for section in f"\n{self.output}".split("\nDumping ")[1:]:
            name, *lines = section.splitlines()
            if name == str(file.absolute()):
                return lines
        return []

    def _problems_on_stderr(self) -> Iterator[str]:
        log = Path()
        for line in self.errors.splitlines():
            if line.startswith("Non-consecutive offsets in "):
                log = Path(line.removeprefix("Non-consecutive offsets in "))
            elif step := STEP.fullmatch(line):
                previous, following = int(step[1]), int(step[2])
                if not self._may_follow(log, previous, following):
                    yield f"{log}: {line.strip()}"
            elif line.strip() and not STACK.match(line):
                yield line.strip()

    def _may_follow(self, log: Path, previous: int, following: int) -> bool:
        # The tool expects every log to begin at 0: it reports the first record of any other as following -1.
        expected = int(log.stem) if previous == -1 else previous + 1
        return following == expected or (self.gaps_allowed and following > expected)

    def _problems_of(self, file: Path) -> Iterator[str]:
        lines = self.lines_of(file)
        yield from (line for line in lines if not HARMLESS[file.suffix].fullmatch(line))
        if file.suffix in ENTRY_SIZE:
            entries = [line for line in lines if not line.endswith(" is empty.")]
            # The tool drops a torn entry, and stops at one of zeros.
            read = len(entries) * ENTRY_SIZE[file.suffix]
            if read != self.sizes[file]:
                yield f"has {self.sizes[file]} bytes, and only {read} are entries"
        if file.suffix == ".index":
            yield from disorder(lines)


def disorder(lines: Iterable[str]) -> Iterator[str]:
    """The entries of an offset index that do not rise, which the tool does not look for."""
    entries = [(int(entry[1]), int(entry[2])) for line in lines if (entry := INDEX_ENTRY.fullmatch(line))]
    for (offset, position), (next_offset, next_position) in pairwise(entries):
        if offset >= next_offset or position >= next_position:
            yield f"offset {next_offset} at {next_position} follows offset {offset} at {position}"


def dump_segments(files: Iterable[Path], *, deep: bool = True, gaps_allowed: bool = False) -> Dump:
    """Let Kafka read these files: .log, .index, .timeindex, .txnindex and .snapshot.

    An .index is checked against the .log beside it, a .timeindex against both. `deep` also reads the
    records in the batches, and without it missing and misplaced batches go unnoticed. A compacted log
    has gaps between its offsets: allow them.
    """
    sizes = {file.absolute(): file.stat().st_size for file in files}
    if unknown := [str(file) for file in sizes if file.suffix not in HARMLESS]:
        raise ValueError(f"DumpLogSegments does not read {', '.join(unknown)}; it reads {', '.join(HARMLESS)}")
    names = ",".join(map(str, sizes))
    command = java_command(TOOL, "--files", names)
    run = subprocess.run(
        [*command, "--deep-iteration"] if deep else command,
        env=java_environment(),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    return Dump(sizes, run.returncode, run.stdout, run.stderr, gaps_allowed)


def java_command(
    main_class: str, *arguments: str, options: Sequence[str] | None = None, classpath: str | None = None
) -> list[str]:
    """The command that runs a class of the distribution; run it with `java_environment()`."""
    if options is None:
        options = JVM_OPTIONS if classpath else [*JVM_OPTIONS, *archive_options()]
    return [find_java(), *options, "-cp", classpath or kafka_classpath(), main_class, *arguments]


def archive_options() -> list[str]:
    """For a Java with the class path of the distribution: its archive of classes, if `kafka_archive.py` has made one.

    An archive that Java cannot use is passed over in silence.
    """
    archive = class_archive()
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds*=off"] if archive.exists() else []


def class_archive() -> Path:
    """Where the archive is: that of this Java and these jars."""
    java, jars = find_java(), Path(kafka_classpath()).parent
    facts = f"{java} {told_version(java)} {jars} {jars.stat().st_mtime_ns}"
    return cache_directory() / f"{jars.name}-{hashlib.sha256(facts.encode()).hexdigest()[:16]}.jsa"


def compiled(source: Path, classes: Path, part: str = "kafka") -> str:
    """The class path of a program in one file, whose classes are written into a folder, and of what it uses."""
    return compiled_with(kafka_classpath(part), source, classes)


def compiled_with(classpath: str, source: Path, classes: Path) -> str:
    """As `compiled`, with the jars of somebody else."""
    # The compiler is a module of Java: it needs no `javac` on the path, and many a Java without `javac` has it.
    command = [find_java(), *JVM_OPTIONS, "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    jars = os.pathsep.join(map(str, Path(classpath).parent.glob("*.jar")))
    run = subprocess.run(
        [*command, "-cp", jars, "-d", str(classes), str(source)],
        env=java_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if "Module jdk.compiler not found" in run.stdout:
        raise KafkaUnavailable(f"'{find_java()}' cannot compile: install a JDK, {OLDEST_JAVA} or newer, for {source}")
    if run.returncode != 0:
        raise AssertionError(f"{source} was not compiled:\n{run.stdout}")
    return f"{classes}{os.pathsep}{classpath}"


def java_environment() -> dict[str, str]:
    """Our environment without what would change how a JVM runs, or make it speak of it."""
    return {name: value for name, value in os.environ.items() if name not in JVM_VARIABLES}


def cache_directory() -> Path:
    """Where things stay that are fetched or built once for the tests."""
    return Path(os.environ.get("RUNNEL_CACHE") or Path.home() / ".cache" / "runnel")


def kafka_classpath(part: str = "kafka") -> str:
    """The class path of a part of Apache Kafka; fetches the jars when they are not there yet."""
    find_java()
    jars = cache_directory() / f"{PARTS[part]}-{VERSION}"
    if not jars.is_dir():
        fetch_jars(jars, Path(__file__).parent / part / "pom.xml")
    return str(jars / "*")


def fetch_jars(jars: Path, pom: Path, what: str = f"Apache Kafka {VERSION}", *, version: str = VERSION) -> None:
    """Fetch under another name first, so that an interrupted download is never taken for a whole one."""
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(f"Maven is missing ('mvn' was not found): it fetches the jars of {what}")
    jars.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=jars.parent, prefix=f"{jars.name}.partial-") as partial:
        fetched = Path(partial) / jars.name
        goal = ["dependency:copy-dependencies", f"-DoutputDirectory={fetched}", f"-Dkafka.version={version}"]
        run = subprocess.run(
            [maven, "-B", "-q", "-f", str(pom), *goal],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise KafkaUnavailable(f"Maven could not fetch {what}:\n{run.stdout}")
        try:
            fetched.rename(jars)
        except OSError:
            # Another run may have finished first; then its jars are as good as ours.
            if not jars.is_dir():
                raise


def find_java() -> str:
    """The `java` of JAVA_HOME, or else of the path; new enough for Kafka."""
    home = os.environ.get("JAVA_HOME")
    wanted = str(Path(home) / "bin" / "java") if home else "java"
    java = shutil.which(wanted)
    if java is None:
        raise KafkaUnavailable(f"Java is missing ('{wanted}' was not found): install {OLDEST_JAVA} or newer")
    told = told_version(java)
    # Before Java 9 a version began with "1.".
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < OLDEST_JAVA:
        raise KafkaUnavailable(f"Java {OLDEST_JAVA} or newer is needed, and '{java} -version' says: {told.strip()}")
    return java


@cache
def told_version(java: str) -> str:
    """What it says of itself, asked once: every command begins with it."""
    return subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
