"""Debian's packages unpacked into a folder: nothing is installed, and the processor may be another one than this."""

import shutil
import subprocess
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def available() -> bool:
    """True if this machine gets Debian's packages."""
    return all(shutil.which(name) for name in ("apt-get", "dpkg"))


def unpacked(package: str, folder: Path, architecture: str = "amd64") -> Path:
    """The root of a file system with a package and all that it depends on; what `folder` has already is used again.

    apt has lists, a cache and a state of its own in the folder, where no package is installed.
    """
    root = folder / "root"
    if root.exists():
        return root
    for name in ("state/lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    status = folder / "state/status"
    status.touch()
    settings = {
        "APT::Architecture": architecture,
        "APT::Architectures": architecture,
        "APT::Sandbox::User": "root",
        "Dir::State": folder / "state",
        "Dir::State::status": status,
        "Dir::Cache": folder / "cache",
    }
    apt = ["apt-get", "-qq", *(word for name, value in settings.items() for word in ("-o", f"{name}={value}"))]
    subprocess.run([*apt, "update"], check=True)
    subprocess.run([*apt, "-y", "--no-install-recommends", "--download-only", "install", package], check=True)
    unpacking = folder / "unpacking"
    for file in sorted((folder / "cache/archives").glob("*.deb")):
        subprocess.run(["dpkg", "-x", file, unpacking], check=True)
    return unpacking.rename(root)


def emulator(machine: str, folder: Path) -> Path:
    """The program that runs those of another processor: this machine's, or the package's in `folder`."""
    name = f"qemu-{machine}-static"
    return Path(shutil.which(name) or unpacked("qemu-user-static", folder / "qemu") / "usr/bin" / name)
