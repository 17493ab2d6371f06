"""Completion of names of files by the shell, for arguments of any encoding: `click.Path` reads them by the locale."""

from collections.abc import Callable
from typing import Any

import click

__all__ = ["names_of"]


def names_of(kind: str) -> Callable[[click.Context, click.Parameter, str], list[Any]]:
    """Return the completion of names: of files for "file", of folders for "dir"."""

    def complete(_ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type=kind)]

    return complete
