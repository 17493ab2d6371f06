"""Print what pip is to install for the dependency groups named as arguments; without any, for building and running.

    python scripts/requirements.py test lint

The lists are those of pyproject.toml. Installing them by themselves, without the package, is what lets the extensions
be built in place, once, with the build tools of the same environment.
"""

import sys
import tomllib
from pathlib import Path
from typing import Any


def expand(name: str, groups: dict[str, list[Any]]) -> set[str]:
    """The requirements of one group, with those of the groups that it includes (PEP 735)."""
    found: set[str] = set()
    for item in groups[name]:
        found |= {item} if isinstance(item, str) else expand(item["include-group"], groups)
    return found


def main() -> None:
    declared = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())
    wanted = set(declared["project"]["dependencies"])
    if len(sys.argv) == 1:
        wanted |= set(declared["build-system"]["requires"])
    for group in sys.argv[1:]:
        wanted |= expand(group, declared["dependency-groups"])
    print("\n".join(sorted(wanted)))


if __name__ == "__main__":
    main()
