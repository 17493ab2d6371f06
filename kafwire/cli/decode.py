"""`kafwire decode`: prints bytes of Kafka's protocol as JSON. docs/reference/cli.md shows every form of the output."""

from contextlib import suppress
from typing import NamedTuple

import click

from kafwire.cli.completion import names_of
from kafwire.cli.decoder import Decoder
from kafwire.cli.findings import EnoughError, Findings
from kafwire.cli.log_decoder import is_log_file
from kafwire.cli.names import check_version, find_message, find_request
from kafwire.cli.output import JsonWriter, pretty_option
from kafwire.cli.source import FORMS, STDIN, Frame, cut_frames, read_input
from kafwire.protocol import Request, Response
from kafwire.protocol.lazy_json import BYTES_FORMS, BytesForm
from kafwire.protocol.stream import MAX_FRAME_BYTES
from kafwire.secret import HIDDEN

__all__ = ["command"]

_HEADERS = ("RequestHeader", "ResponseHeader")


# "\b" keeps click from re-wrapping the paragraph
_HELP = """Show the bytes of Kafka's protocol as JSON with Kafka's field names.

INPUT is a file, hex or base64, or - for standard input, which is also the default.

\b
  kafwire decode 00030004000000010000000000000001
  kafwire decode --response --api Metadata --version 12 response.bin
  kafwire decode --message ConsumerProtocolSubscription AAMAAAAA/////wAAAAD/////AAA=
  kafwire decode --connection client-to-server.bin server-to-client.bin
  kafwire decode --records 00000000000000000000.log
  kafwire decode --records __consumer_offsets-7/00000000000000000000.log
  kafwire decode 00000000000000000000.timeindex -c 10

Integers of any size are exact. Exit code 1: something could not be decoded.
"""


@click.command("decode", help=_HELP)
@click.argument("inputs", nargs=-1, metavar="[INPUT]...", shell_complete=names_of("file"))
@click.option("--request", "mode", flag_value="request", help="Requests; API and version are in the header. [default]")
@click.option("--response", "mode", flag_value="response", help="A response; needs --api and --version.")
@click.option(
    "--message",
    metavar="NAME",
    help="A single message, such as the contents of a bytes field: ConsumerProtocolSubscription.",
)
@click.option(
    "--connection",
    "mode",
    flag_value="connection",
    help="Two files: the bytes that a client sent, and those that it received.",
)
@click.option(
    "--log",
    "mode",
    flag_value="log",
    help="A file of a partition: *.log, *.index, *.timeindex, *.txnindex, *.snapshot, *.checkpoint. "
    "Other names are read as a segment. [default for these names]",
)
@click.option("--api", metavar="API", help="Name or key of the API.")
@click.option("--version", type=int, metavar="N", help="Version of the API or of the message.")
@click.option("--body", is_flag=True, help="The input has no header; needs --api and --version.")
@click.option(
    "--input", "form", type=click.Choice(FORMS), default="auto", show_default=True, help="Encoding of the input."
)
@click.option("--size-prefix/--no-size-prefix", default=None, help="Frames begin with their size. [default: detect]")
@click.option(
    "--records", is_flag=True, help="Show the records: inside their batches; for a log, one value per record."
)
@click.option(
    "--topic",
    metavar="TOPIC",
    help="The topic of the log; the records of Kafka's internal topics are decoded. [default: from the folder's name]",
)
@click.option("--raw-records", is_flag=True, help="Show record batches as base64.")
@click.option(
    "--bytes",
    "bytes_form",
    type=click.Choice(BYTES_FORMS),
    default="auto",
    show_default=True,
    help='Form of keys and values; auto: text, or {"base64": ...} for other bytes.',
)
@click.option(
    "--show-secrets",
    is_flag=True,
    help=f"Show credentials, salted passwords, tokens, and values of secret options. [default: {HIDDEN}]",
)
@click.option(
    "--max-frame-bytes",
    type=click.IntRange(min=1),
    default=MAX_FRAME_BYTES,
    show_default=True,
    help="Maximum size of a frame.",
)
@click.option("-c", "--count", "--limit", type=click.IntRange(min=1), metavar="N", help="Stop after N values.")
@pretty_option
def command(
    inputs: tuple[str, ...],
    mode: str | None,
    message: str | None,
    api: str | None,
    version: int | None,
    body: bool,
    form: str,
    size_prefix: bool | None,
    records: bool,
    raw_records: bool,
    bytes_form: BytesForm,
    show_secrets: bool,
    max_frame_bytes: int,
    topic: str | None,
    count: int | None,
    pretty: bool | None,
) -> int:
    """Decode the inputs."""
    if message is not None and mode is not None:
        raise click.UsageError("--message excludes --request, --response, --connection and --log")
    if records and raw_records:
        raise click.UsageError("give either --records or --raw-records")
    if mode is None and message is None:
        mode = "log" if len(inputs) == 1 and is_log_file(inputs[0]) else "request"
    if len(inputs) != 2 and mode == "connection":
        raise click.UsageError("--connection needs two files: the bytes that the client sent and received")
    if len(inputs) > 1 and mode != "connection":
        raise click.UsageError("give one input; only --connection has two")
    if mode in {"connection", "log"} and (api or version is not None or body or form not in {"auto", "raw"}):
        raise click.UsageError(f"--{mode} reads raw bytes, and excludes --api, --version and --body")
    if mode in {"connection", "log"} and size_prefix is not None:
        raise click.UsageError(f"--{mode} excludes --size-prefix")
    if topic is not None and mode != "log":
        raise click.UsageError("--topic is for the log of a partition")
    if mode == "log" and raw_records:
        raise click.UsageError("--raw-records is for frames and messages, not for a log")
    if not all(inputs):
        raise click.UsageError("an input is empty: give a file, hex or base64")
    if inputs == (STDIN, STDIN):
        raise click.UsageError("--connection cannot read both directions from standard input")
    given = inputs[0] if inputs else None
    findings = Findings(JsonWriter(pretty), count)
    decoder = Decoder(
        findings,
        records=records,
        raw_records=raw_records,
        bytes_form=bytes_form,
        show_secrets=show_secrets,
    )
    with suppress(EnoughError):
        if mode == "connection":
            decoder.connection(inputs[0], inputs[1], max_frame_bytes)
        elif mode == "log":
            decoder.log(given or STDIN, topic)
        else:
            source = _Source(given, form, max_frame_bytes, size_prefix)
            if message is not None:
                if api or body or size_prefix is not None:
                    raise click.UsageError("--message excludes --api, --body and --size-prefix")
                _decode_message(decoder, message, version, source)
            else:
                _decode_frames(decoder, mode or "request", api, version, source, body=body)
    return findings.finish()


class _Source(NamedTuple):
    """The source of the bytes of frames and messages."""

    given: str | None
    form: str
    max_frame_bytes: int
    size_prefix: bool | None

    def read(self) -> bytes:
        return read_input(self.given, self.form, self.max_frame_bytes)

    def frames(self, *, requests: bool) -> list[Frame]:
        return cut_frames(self.read(), self.size_prefix, self.max_frame_bytes, requests=requests)


def _decode_message(decoder: Decoder, name: str, version: int | None, source: _Source) -> None:
    cls = find_message(name)
    if version is not None:
        check_version(cls, version)
    elif cls.__name__ in _HEADERS:
        raise click.UsageError(f"--message {cls.__name__} needs --version: its bytes do not contain it")
    decoder.message(cls, version, source.read())


def _decode_frames(
    decoder: Decoder, mode: str, api: str | None, version: int | None, source: _Source, *, body: bool
) -> None:
    if mode == "request" and not body:
        if api or version is not None:
            raise click.UsageError("a request's header has its API and version; if it has no header, add --body")
        decoder.requests(source.frames(requests=True))
        return
    request, version = _api_and_version(mode, api, version)
    if body and mode == "request":
        decoder.message(request, version, source.read())
    elif body:
        decoder.response_body(request, version, source.read())
    else:
        decoder.responses(source.frames(requests=False), request, version)


def _api_and_version(mode: str, api: str | None, version: int | None) -> tuple[type[Request[Response]], int]:
    if api is None or version is None:
        raise click.UsageError(f"--{mode}{' --body' if mode == 'request' else ''} needs --api and --version")
    request = find_request(api)
    check_version(request if mode == "request" else request.response, version)
    return request, version
