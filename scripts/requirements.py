"""Print what pip is to install for the extras named as arguments; without any, for building and running.

    python scripts/requirements.py test lint

The lists are those of pyproject.toml. Installing them by themselves, without the package, is what lets the extensions
be built in place, once, with the build tools of the same environment.
"""

import re
import sys
import tomllib
from pathlib import Path


def expand(extra: str, extras: dict[str, list[str]]) -> set[str]:
    """The requirements of one extra, with those of the extras that it names."""
    found: set[str] = set()
    for requirement in extras[extra]:
        inner = re.fullmatch(r"kafwire\[([\w,-]+)\]", requirement)
        if inner is None:
            found.add(requirement)
        else:
            for name in inner[1].split(","):
                found |= expand(name, extras)
    return found


def main() -> None:
    declared = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    wanted = set(declared["project"]["dependencies"])
    if len(sys.argv) == 1:
        wanted |= set(declared["build-system"]["requires"])
    for extra in sys.argv[1:]:
        wanted |= expand(extra, declared["project"]["optional-dependencies"])
    print("\n".join(sorted(wanted)))


if __name__ == "__main__":
    main()
