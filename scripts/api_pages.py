"""Writes the pages of docs/reference/api: each public name once, on the page of its module.

`python -m scripts.api_pages` writes the pages and their list in docs/README.md; a test compares them with the code. The
names come from the `__all__` of the sources, without an import. The site puts the docstrings in their places.
"""

from __future__ import annotations

import ast
from pathlib import Path

from scripts.marks import with_part

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "reference" / "api"
MAP = ROOT / "docs" / "README.md"
# Names of the package that these modules have too stand on the modules' pages.
MODULES = (
    "kafwire",
    "kafwire.admin",
    "kafwire.errors",
    "kafwire.types",
    "kafwire.records",
    "kafwire.schemas",
    "kafwire.registry",
    "kafwire.serialization",
    "kafwire.stream",
    "kafwire.outbox",
    "kafwire.database",
    "kafwire.telemetry",
    "kafwire.arrow",
    "kafwire.avro",
    "kafwire.protobuf",
    "kafwire.json_columns",
    "kafwire.bad_records",
    "kafwire.compression",
    "kafwire.frames",
    "kafwire.polars",
    "kafwire.dask",
    "kafwire.ray",
    "kafwire.spark",
    "kafwire.testing",
    "kafwire.testing.faults",
    "kafwire.testing.history",
    "kafwire.testing.strategies",
    "kafwire.testing.fuzzer",
)
# Types that public calls return, by their homes: no `__all__` has them.
RETURNED = (
    "kafwire.aio.transaction.AsyncTransactionBlock",
    "kafwire.cluster.metadata.TopicInfo",
    "kafwire.consumer.delivery.arrow_stream.ArrowStream",
    "kafwire.sync.transaction.TransactionBlock",
)


def source(module: str) -> Path:
    """The file of a module's source."""
    path = ROOT.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def declared(module: str) -> list[str]:
    """The names in the `__all__` of a module.

    Raises:
        ValueError: the module has no `__all__` that is a list of texts.
    """
    for node in ast.parse(source(module).read_text()).body:
        if isinstance(node, ast.Assign) and any(getattr(each, "id", "") == "__all__" for each in node.targets):
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{source(module)} has no __all__: give it one, or take it out of scripts/api_pages.py")


def names(module: str) -> list[str]:
    """The full names that the page of a module describes."""
    own = declared(module)
    if module == "kafwire.protobuf":  # classes of all formats, which the page of kafwire.avro has
        own = [name for name in own if name not in declared("kafwire.avro")]
    if module != "kafwire":
        return [f"{module}.{name}" for name in own]
    elsewhere = {name for other in MODULES[1:] if other not in TWINS for name in declared(other)}
    rooms = {path.name.removesuffix(".py") for path in (ROOT / "kafwire").iterdir()} - {"scan"}
    return [f"kafwire.{name}" for name in own if name not in elsewhere | rooms | {"__version__"}] + list(RETURNED)


# Their names are not those of the package, even if they are spelt alike.
TWINS = frozenset({"kafwire.avro", "kafwire.protobuf", "kafwire.testing", "kafwire.spark"})


def page(module: str) -> str:
    """The text of a page."""
    entries = "".join(f"\n::: {name}\n" for name in names(module))
    shown = (
        f"Public names with their docstrings, as `help({module})` shows them. On GitHub this page has the names only."
    )
    return f"# {module}\n\n{shown}\n{entries}"


def listed(text: str) -> str:
    """docs/README.md with the list of the pages."""
    links = ",\n".join(f"[{module}](reference/api/{module}.md)" for module in MODULES)
    return with_part(text, "<!-- api: begin -->", "<!-- api: end -->", f"\n- Names and their docstrings: {links}\n\n")


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for module in MODULES:
        (FOLDER / f"{module}.md").write_text(page(module))
    MAP.write_text(listed(MAP.read_text()))


if __name__ == "__main__":
    main()
