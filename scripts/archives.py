"""Source distributions of Python packages, unpacked."""

import tarfile
from pathlib import Path


def unpacked(archive: Path, folder: Path) -> Path:
    """Unpack a source distribution below `folder`; return the single folder at its top.

    Raises:
        ValueError: the archive has several files or folders at its top, or none.
    """
    with tarfile.open(archive) as tar:
        if hasattr(tarfile, "data_filter"):  # not in every CPython 3.11
            tar.extraction_filter = tarfile.data_filter
        tar.extractall(folder)
    found = list(folder.iterdir())
    if len(found) != 1 or not found[0].is_dir():
        raise ValueError(f"{archive.name} has {len(found)} entries at its top; a source distribution has one folder")
    return found[0]
