"""Apache Kafka's jars, fetched once per user and version.

Ivy ships inside pyspark's own jars and knows the public Maven repository, so the module needs no Maven and no address.
The jars land in a cache folder: `$KAFWIRE_CACHE`, else `$XDG_CACHE_HOME/kafwire`, else `~/.cache/kafwire`. A folder of
jars appears there complete or not at all, so any number of processes may call `resolve` at once.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from kafwire.broker.setup_error import SetupError

DEFAULT_VERSION = "4.4.0"
PREVIOUS_VERSION = "4.3.1"
OLDEST_VERSION = "3.9.1"

_OLDEST_JAVA = 17
_RESOLVE_TIMEOUT_SECONDS = 900

# kafka-tools (Java's performance tools) comes without its dependencies: they are Connect's, with a web server. A broker
# logs nothing without an slf4j binding. 3.9 is compiled against log4j 1, which log4j-1.2-api replaces; its own choice,
# reload4j, would be a second binding.
_IVY_FILE = """<ivy-module version="2.0">
  <info organisation="kafwire" module="kafka-{version}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{version}" conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{version}" conf="default->default" transitive="false"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-1.2-api" rev="2.25.4" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-core" rev="2.25.4" conf="default->default"/>
    <exclude module="slf4j-reload4j"/>
    <exclude module="reload4j"/>
  </dependencies>
</ivy-module>
"""

LOG4J2_CONFIGURATION = """<Configuration status="error">
  <Appenders>
    <Console name="console"><PatternLayout pattern="[%d] %p %m (%c)%n"/></Console>
  </Appenders>
  <Loggers>
    <Logger name="org.apache.kafka.common.config.AbstractConfig" level="warn"/>
    <Logger name="kafka.server.KafkaConfig" level="warn"/>
    <Root level="info"><AppenderRef ref="console"/></Root>
  </Loggers>
</Configuration>
"""


def cache_folder() -> Path:
    """Return the folder for files that are fetched or compiled once per user; it is created if needed."""
    chosen = os.environ.get("KAFWIRE_CACHE")
    folder = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafwire"
    folder.mkdir(parents=True, exist_ok=True)
    return folder.resolve()


@cache
def java(tool: str = "java") -> str:
    """Return the path of a JDK tool, from `$JAVA_HOME` or the `PATH`.

    Raises `SetupError` if it is missing, or older than Java 17.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(tool, path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which(tool)
    if found is None:
        message = (
            f"no `{tool}` in JAVA_HOME or on the PATH: a JDK >= {_OLDEST_JAVA} is needed (Debian: default-jdk-headless)"
        )
        raise SetupError(message)
    done = subprocess.run([found, "-version"], capture_output=True, text=True, check=True)
    version = re.search(r"\b(\d+)[.\d]*", done.stderr + done.stdout)
    if version is None or int(version[1]) < _OLDEST_JAVA:
        said = (done.stderr + done.stdout).splitlines()[0]
        message = f"{found} is too old ({said}): a JDK >= {_OLDEST_JAVA} is needed (Debian: default-jdk-headless)"
        raise SetupError(message)
    return found


@cache
def java_identity() -> str:
    """Return a text that identifies this Java: its path and its version."""
    done = subprocess.run([java(), "-version"], capture_output=True, text=True, check=True)
    return f"{java()}\n{done.stderr}{done.stdout}"


def resolve(version: str = DEFAULT_VERSION) -> Path:
    """Return the folder of jars of Kafka `version` with tools and logging; fetched on first use (about 30 s)."""
    description = _IVY_FILE.format(version=version)
    recipe = hashlib.sha256(description.encode()).hexdigest()[:8]
    target = cache_folder() / f"kafka-{version}-{recipe}"
    if target.is_dir():
        return target
    with (cache_folder() / "resolve.lock").open("w") as lock:
        # Ivy's cache allows one writer. A process that waited here finds the work done.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _retrieve(version, description, target)
    return target


def class_path(version: str = DEFAULT_VERSION) -> str:
    """Return the class path, for `java -cp`, of Kafka `version`."""
    return str(resolve(version) / "*")


def kept(version: str, kind: str, *made_from: str) -> Path:
    """Return the path of a cached result that depends on the jars of Kafka `version` and on this Java."""
    digest = hashlib.sha256("\0".join((java_identity(), *made_from)).encode()).hexdigest()[:12]
    folder = resolve(version)
    return folder.with_name(f"{folder.name}-{kind}-{digest}")


def _retrieve(version: str, description: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
        ivy_file = Path(scratch) / "ivy.xml"
        ivy_file.write_text(description)
        jars = Path(scratch) / "jars"
        command = [
            java(),
            f"-Divy.default.ivy.user.dir={target.parent / 'ivy'}",
            *("-cp", str(_ivy_jar())),
            "org.apache.ivy.Main",
            *("-ivy", str(ivy_file)),
            *("-cache", str(target.parent / "ivy")),
            *("-confs", "default"),
            *("-types", "jar", "bundle"),
            *("-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"),
        ]
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=_RESOLVE_TIMEOUT_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            message = f"Ivy did not bring Kafka {version} within {_RESOLVE_TIMEOUT_SECONDS} s"
            raise SetupError(message) from error
        if done.returncode or not list(jars.glob("kafka_2.13-*.jar")):
            tail = "\n".join(done.stdout.splitlines()[-30:])
            message = f"Ivy could not bring the jars of Kafka {version} (exit code {done.returncode}):\n{tail}"
            raise SetupError(message)
        jars.rename(target)


def _ivy_jar() -> Path:
    spec = importlib.util.find_spec("pyspark")  # the package's place, without importing it
    if spec is None or spec.origin is None:
        message = "Kafka's jars are fetched by the Ivy inside pyspark: pip install 'kafwire[spark-testing]'"
        raise SetupError(message)
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        message = f"no ivy-*.jar among pyspark's jars in {Path(spec.origin).parent / 'jars'}"
        raise SetupError(message)
    return found[-1]
