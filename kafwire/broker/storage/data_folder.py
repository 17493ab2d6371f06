"""The folder of a broker with `--data`: its cluster id, its lock against a second broker, its mark of a clean close.

kafwire-broker.properties   format version and cluster id
.lock                       locked while a broker uses the folder
.kafka_cleanshutdown        present after a clean close, as with Kafka
journal                     all state except records, see `journal.py`
<topic>-<partition>/        a log, in Kafka's format
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from kafwire.broker.storage.files import RealFiles, write_file

FORMAT = 1
PROPERTIES = "kafwire-broker.properties"
CLEAN = ".kafka_cleanshutdown"
_LOCK = ".lock"


class FolderError(OSError):
    """A folder cannot be used by this broker. The folder is unchanged."""


class DataFolder:
    """A locked folder. Raises `FolderError`.

    `is_clean`: the folder is new, or the last broker that used it closed it.
    """

    def __init__(self, path: Path, new_cluster_id: str) -> None:
        self.path = path
        self.files = RealFiles()
        known = self._identify()
        path.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            raise FolderError(f"{path} is used by another broker, which is running") from None
        self.cluster_id = known or new_cluster_id
        if not known:
            text = f"# A data folder of `kafwire broker`.\nversion={FORMAT}\ncluster.id={new_cluster_id}\n"
            write_file(self.files, str(path / PROPERTIES), text.encode())
        self.is_clean = not known or (path / CLEAN).exists()
        (path / CLEAN).unlink(missing_ok=True)
        self.files.sync_folder(str(path))

    def _identify(self) -> str | None:
        """Return the folder's cluster id; None if the folder is empty or does not exist."""
        path = self.path
        if not path.exists():
            return None
        if not path.is_dir():
            raise FolderError(f"{path} is not a folder")
        names = {each.name for each in path.iterdir()} - {_LOCK}
        if PROPERTIES not in names:
            if "meta.properties" in names:
                raise FolderError(f"{path} is a folder of Apache Kafka's: kafwire takes only its own")
            if names - {PROPERTIES + ".tmp"}:
                some = ", ".join(sorted(names)[:3])
                raise FolderError(f"{path} is not empty ({some}), and not a data folder of kafwire's")
            return None
        text = (path / PROPERTIES).read_text(errors="replace")
        found = dict(line.split("=", 1) for line in text.splitlines() if "=" in line and not line.startswith("#"))
        version = found.get("version", "")
        if version != str(FORMAT):
            raise FolderError(f"{path} has format version {version or 'none'}; this kafwire has version {FORMAT}")
        if not found.get("cluster.id"):
            raise FolderError(f"{path / PROPERTIES} has no cluster.id")
        return found["cluster.id"]

    def close(self, *, clean: bool) -> None:
        """Unlock the folder; `clean` marks it as closed."""
        if clean:
            write_file(self.files, str(self.path / CLEAN), b'{"version":0}')
        os.close(self._lock)
