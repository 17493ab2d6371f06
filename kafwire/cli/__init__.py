"""The command `kafwire`. The subcommand `x` is the `command` of `kafwire/cli/x.py`, imported on use.

All subcommands print results to standard output, and everything else to standard error. An error is one line there,
without a traceback. Exit codes: 0 success; 1 the operation failed, or the check found something; 2 wrong usage; 130
ended by Ctrl-C; 141 the reader of the output is gone, as with any program in a pipe; 143 ended by SIGTERM.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import click

from kafwire.errors import KafkaError
from kafwire.foreign_text import printable
from kafwire.similar_names import similar

__all__ = ["main"]

INTERRUPTED = 130
BROKEN_PIPE = 141

# Short helps of the subcommands: the main help imports none of them.
_COMMANDS = {
    "acls": "List, add and remove access rules.",
    "broker": "Run a Kafka cluster in this process, for development and tests.",
    "cluster": "Show brokers, features, the quorum of controllers and log directories.",
    "consume": "Print records of topics, in kcat's formats.",
    "copy": "Copy a topic to Parquet files, an Iceberg table or a topic, each record once.",
    "decode": "Show frames, a connection's dump or the files of a log as JSON.",
    "doctor": "Check a broker step by step, and suggest changes.",
    "fuzz": "Send a Kafka server requests that no client sends, and check its responses.",
    "groups": "List groups of every type, show members and lag, reset and delete offsets.",
    "info": "Show versions, and the native code in use.",
    "letters": "List the dead letters of streams, and send them back.",
    "messages": "List the messages of the protocol, or show the fields of one.",
    "offsets": "Show the offsets of partitions at a time.",
    "produce": "Send lines or files as records, in kcat's formats.",
    "quotas": "List, set and remove quotas of users, client ids and addresses.",
    "reassign": "Move partitions to other brokers, after a plan.",
    "spark": "Run Spark jobs over Kafka, show their lag, check their environment.",
    "topics": "List topics, show partitions and offsets, create, change and delete topics.",
    "transactions": "List transactional ids, find and abort hanging transactions.",
    "users": "List users with SCRAM credentials, set passwords, remove credentials.",
}


@runtime_checkable
class HasSiblings(Protocol):
    """A command with subcommands of its own."""

    def command_with(self, option: str) -> str | None:
        """Return the subcommand that has an option."""


class Commands(click.Group):
    """A group whose subcommands are imported on use, and whose errors are one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of the subcommands."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a subcommand."""
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(f"kafwire.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the subcommand; for an unknown name, suggest a similar one."""
        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            near = similar(args[0], _COMMANDS)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"no such command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the subcommands in the help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse the arguments, and show help or version if requested."""
        with _own_codes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand."""
        with _own_codes():
            return super().invoke(ctx)

    def main(  # type: ignore[override] # it never returns
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: ARG002
        **extra: Any,
    ) -> None:
        """Run the command line and exit with its code."""
        if sys.stdout is None:  # its descriptor was closed before; the next file or socket would get its number
            click.echo(_line("kafwire", "standard output is closed"), err=True)
            sys.exit(1)
        code, message = self._run(args, prog_name, complete_var, extra)
        try:
            sys.stdout.flush()  # unwritten output is still buffered, and fails again
        except BrokenPipeError:
            _discard_output()
            code, message = BROKEN_PIPE, ""
        except OSError as error:
            _discard_output()
            code, message = 1, _line("kafwire", str(error))
        if message:
            click.echo(message, err=True)
        sys.exit(code)

    def _run(
        self, args: Sequence[str] | None, prog_name: str | None, complete_var: str | None, extra: dict[str, Any]
    ) -> tuple[int, str]:
        """Return the exit code, and the message for standard error."""
        try:
            words = [_utf8(word) for word in sys.argv[1:]] if args is None else args
            code = super().main(words, prog_name, complete_var, standalone_mode=False, **extra)
            return (code if isinstance(code, int) else 0), ""
        except click.exceptions.NoArgsIsHelpError as error:
            return error.exit_code, error.format_message()
        except click.UsageError as error:
            where = error.ctx.command_path if error.ctx else "kafwire"
            text = _said(error).rstrip(".")
            return error.exit_code, _line(where, f"{text[:1].lower()}{text[1:]} (see '{where} --help')")
        except click.ClickException as error:
            return error.exit_code, _line("kafwire", error.format_message())
        except click.Abort:
            return INTERRUPTED, ""
        except OSError as error:
            return 1, _line("kafwire", f"{error.filename}: {error.strerror}" if error.filename else str(error))
        except KafkaError as error:
            return 1, _line("kafwire", str(error))


def _utf8(word: str) -> str:
    """Return a word of the command line as UTF-8 in any locale: Kafka's names are UTF-8.

    A word that names an existing file stays in the locale's encoding.
    """
    if word.isascii() or sys.getfilesystemencoding() == "utf-8":
        return word
    if os.path.exists(word):  # noqa: PTH110 - Path.exists raises OSError for a word longer than a file's name
        return word
    try:
        return os.fsencode(word).decode()
    except UnicodeDecodeError:
        return word


def _said(error: click.UsageError) -> str:
    """Return an error's text; for an unknown option, with the subcommand that has it, or a similar option."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error.format_message()
    asked = error.ctx.command
    if isinstance(asked, HasSiblings) and (other := asked.command_with(error.option_name)) is not None:
        return f"no such option '{error.option_name}': '{error.ctx.command_path} {other}' has it"
    from kafwire.cli.kcat_options import hint

    if (advice := hint(error.option_name, error.ctx.command_path)) is not None:
        return f"no such option '{error.option_name}': {advice}"
    near = similar(error.option_name, [name for each in asked.params for name in (*each.opts, *each.secondary_opts)])
    return f"no such option '{error.option_name}'{f'; did you mean {near[0]!r}?' if near else ''}"


@contextmanager
def _own_codes() -> Iterator[None]:
    """Raise Exit with our own codes where click's `main` would exit with code 1."""
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        raise click.exceptions.Exit(BROKEN_PIPE) from None


def _line(where: str, message: str) -> str:
    return f"{where}: {printable(' '.join(message.split()))}"


def _discard_output() -> None:
    """Let the interpreter's last flush succeed, unless standard output has no descriptor."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from kafwire._version import __version__

        click.echo(f"kafwire {__version__}")
        ctx.exit()


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Kafka's wire protocol on the command line."""
