"""One target under atheris, as a program with libFuzzer's options: what `programs` writes starts `main`."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Branches of these are the map that guides the search.
INSTRUMENTED = [
    *("kafwire.protocol", "kafwire.config", "kafwire.records"),
    *("kafwire.cli.decoder", "kafwire.cli.output"),
]


def programs(names: list[str], folder: Path) -> dict[str, Path]:
    """Write a program per target: libFuzzer starts itself again to minimise and to merge, so it has to be one file."""
    folder.mkdir(parents=True, exist_ok=True)
    made = {}
    for name in names:
        path = folder / name
        path.write_text(
            f"#!{sys.executable}\n"
            "import sys\n"
            f"sys.path.insert(0, {str(ROOT)!r})\n"
            "from fuzz.atheris.child import main\n"
            f"main({name!r})\n"
        )
        path.chmod(0o755)
        made[name] = path
    return made


def main(name: str) -> None:
    """Run a target with the options in `sys.argv`; never returns."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        from fuzz.atheris.targets import TARGETS

    check = TARGETS[name]

    def once(data: bytes) -> None:
        try:
            check(data)
        except Exception as error:
            signal.signal(signal.SIGALRM, signal.SIG_IGN)  # libFuzzer's clock would kill the interpreter while it ends
            print(f"INVARIANT BROKEN: {type(error).__name__}: {error}".replace("\n", " "), flush=True)
            raise

    atheris.Setup(sys.argv, once)
    atheris.Fuzz()
