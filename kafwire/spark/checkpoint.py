"""The offsets in a checkpoint of Structured Streaming, read from its files: no session, no JVM.

`offsets/N` holds the ends of batch N, a line for each source, and is written before the batch runs; `commits/N` says
that the batch ended. Spark's own Kafka source keeps its start in `sources/<number>/0`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.errors import ConfigError
from kafwire.spark.offsets import parse_topics

if TYPE_CHECKING:
    from kafwire.spark.stream_offsets import Offsets

_VERSION = "v1"
_NO_OFFSET = "-"  # the offset of a source without records so far
_HEADER_LINES = 2  # the version, and the batch's metadata


class Folder(Protocol):
    """The files of a checkpoint."""

    def names(self, folder: str) -> list[str]:
        """The names in a folder; none if the folder does not exist."""

    def text(self, path: str) -> str:
        """The content of a file."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest committed batch. `sources` has None for a source whose offsets are not those of Kafka partitions."""

    batch: int
    time_ms: int | None
    sources: tuple[Offsets | None, ...]

    @property
    def offsets(self) -> Offsets:
        """The offsets of all sources; the lowest of a partition that several sources read."""
        found: Offsets = {}
        for offsets in self.sources:
            for place, offset in (offsets or {}).items():
                found[place] = min(offset, found.get(place, offset))
        return found


@dataclass(frozen=True, slots=True)
class UnfinishedStart:
    """A first batch of Spark's own source that was never committed: its start, and its end if it was planned."""

    source: int
    start: Offsets
    end: Offsets | None


def open_checkpoint(location: str) -> Folder:
    """Return the folder of a checkpoint, as `open_folder`; raises `ConfigError` also without a checkpoint's files."""
    folder = open_folder(location)
    if not {"metadata", "offsets", "sources"} & set(folder.names("")):
        raise ConfigError(
            f"{location} is no checkpoint: it has neither `metadata` nor `offsets`; give the query's checkpointLocation"
        )
    return folder


def open_folder(location: str) -> Folder:
    """The folder at a path, or at a URI that pyarrow reads, such as `hdfs://` and `s3a://`. It may be missing.

    Raises `ConfigError` for a file system that cannot be reached.
    """
    scheme, separator, path = location.partition("://")
    local = location.removeprefix("file://").removeprefix("file:")
    if separator and scheme != "file":
        return _remote_folder(scheme, path, location)
    return _LocalFolder(Path(local))


def committed(folder: Folder) -> Committed | None:
    """The newest batch that has both `offsets/N` and `commits/N`; None if no batch was committed.

    Raises `ConfigError` for files of another format.
    """
    batches = _batches(folder, "commits") & _batches(folder, "offsets")
    if not batches:
        return None
    newest = max(batches)
    metadata, sources = _offset_file(folder, newest)
    time_ms = metadata.get("batchTimestampMs")
    return Committed(newest, time_ms if isinstance(time_ms, int) else None, sources)


def unfinished_start(folder: Folder) -> UnfinishedStart | None:
    """The first batch of Spark's own Kafka source, if it was begun and never committed.

    A Python source gets no file of the checkpoint, so it would start that batch at another offset, or take it for an
    empty first batch of its own. A first batch of kafwire's own source is safe to run again, and is not reported.
    """
    if 0 in _batches(folder, "commits"):
        return None
    planned = _offset_file(folder, 0)[1] if 0 in _batches(folder, "offsets") else ()
    for source in sorted(_numbers(folder.names("sources"))):
        if "0" not in folder.names(f"sources/{source}"):
            continue
        text = folder.text(f"sources/{source}/0")
        start = _offsets(text[text.find("{") :]) if "{" in text else None
        if start is not None:
            return UnfinishedStart(source, start, planned[source] if source < len(planned) else None)
    return None


def refuse_unfinished_start(folder: Folder, location: str) -> None:
    """Raise `ConfigError`, with the offsets and the way out, if `unfinished_start` finds a batch."""
    found = unfinished_start(folder)
    if found is None:
        return
    end = "its end was not planned" if found.end is None else f"its end is {shown(found.end)}"
    raise ConfigError(
        f"the checkpoint {location} has a first batch of Spark's own Kafka source that was not committed "
        f"(sources/{found.source}/0 without commits/0): its start is {shown(found.start)}, {end}. kafwire cannot read "
        'that start and would lose the batch: run the query once with format("kafka") until commits/0 exists, or '
        f"delete the checkpoint and set startingOffsets to {_json(found.start)}"
    )


def shown(offsets: Offsets) -> str:
    """Offsets for a message: the first ten by partition."""
    places = sorted(offsets)
    text = ", ".join(f"{place.topic}-{place.partition}: {offsets[place]}" for place in places[:10])
    return text + (f" and {len(places) - 10} more" if len(places) > 10 else "")


class _LocalFolder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def names(self, folder: str) -> list[str]:
        path = self._root / folder
        return [entry.name for entry in path.iterdir()] if path.is_dir() else []

    def text(self, path: str) -> str:
        return (self._root / path).read_text(encoding="utf-8", errors="replace")


class _ArrowFolder:
    def __init__(self, system: Any, root: str) -> None:
        self._system, self._root = system, root.rstrip("/")

    def names(self, folder: str) -> list[str]:
        from pyarrow import fs

        selector = fs.FileSelector(f"{self._root}/{folder}".rstrip("/"), allow_not_found=True)
        return [entry.base_name for entry in self._system.get_file_info(selector)]

    def text(self, path: str) -> str:
        with self._system.open_input_stream(f"{self._root}/{path}") as file:
            return str(file.readall().decode("utf-8", errors="replace"))


def _remote_folder(scheme: str, path: str, location: str) -> Folder:
    try:
        import pyarrow as pa
        from pyarrow import fs
    except ImportError:
        raise ConfigError(f"{location}: pyarrow reads this file system: pip install 'kafwire[spark]'") from None
    # The names of Hadoop's clients for the same store.
    plain = {"s3a": "s3", "s3n": "s3"}.get(scheme, scheme)
    try:
        return _ArrowFolder(*fs.FileSystem.from_uri(f"{plain}://{path}"))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ConfigError(
            f"{location} cannot be opened by pyarrow: {error}; copy the folders offsets, commits and sources "
            "to a local path and give that"
        ) from None


def _batches(folder: Folder, kind: str) -> set[int]:
    return set(_numbers(folder.names(kind)))


def _numbers(names: list[str]) -> list[int]:
    return [int(name) for name in names if name.isascii() and name.isdigit()]


def _offset_file(folder: Folder, batch: int) -> tuple[dict[str, Any], tuple[Offsets | None, ...]]:
    """The metadata of a batch, and the end of each source."""
    path = f"offsets/{batch}"
    version, *lines = folder.text(path).split("\n")
    if version != _VERSION:
        raise ConfigError(f"{path} of the checkpoint has the format {version[:20]!r}; only {_VERSION} is known here")
    try:
        metadata = json.loads(lines[0]) if lines and lines[0].strip() else {}
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise ConfigError(f"{path} of the checkpoint is damaged: its line {_HEADER_LINES} is no JSON object")
    return metadata, tuple(None if line == _NO_OFFSET else _offsets(line) for line in lines[1:])


def _offsets(text: str) -> Offsets | None:
    """The offsets of a Kafka source; None for those of another kind of source."""
    try:
        shape = json.loads(text)
        return parse_topics(shape, 0) if isinstance(shape, dict) else None
    except ValueError:
        return None


def _json(offsets: Offsets) -> str:
    from kafwire.spark.stream_offsets import to_json

    return json.dumps(to_json(offsets))
