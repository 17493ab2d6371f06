"""`kafwire fuzz`: a property-based fuzzer for any server that speaks Kafka's protocol."""

import json
import secrets
import shlex
import sys
from pathlib import Path

import click

from kafwire.errors import KafkaError

_CANNOT_CONNECT = 3


@click.command(name="fuzz")
@click.argument("address", metavar="HOST:PORT")
@click.option("--seed", type=int, help="Seed of all random choices.  [default: a new one, which is printed]")
@click.option("--case", "only_case", type=click.IntRange(min=0), help="Send only this case of the seed.")
@click.option("--seconds", type=click.FloatRange(min=0), default=60.0, show_default=True, help="How long to run.")
@click.option("--requests", type=click.IntRange(min=1), help="Stop after about this number of requests.")
@click.option("--apis", help="Only these APIs, by Kafka's names: Metadata,Fetch.")
@click.option("--exclude", help="All but these APIs.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.05),
    default=5.0,
    show_default=True,
    help="Seconds without a response that count as a find.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("kafwire-fuzz"),
    show_default=True,
    help="The folder for finds: each as JSON, and as a pytest file.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole summary as JSON.")
@click.option(
    "--replay",
    "replay_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Send the case of this find again, and nothing else.",
)
@click.option(
    "--destructive",
    is_flag=True,
    help="Also send requests that create, change and delete, and those of controllers: for a disposable server.",
)
@click.option("--allow-remote", is_flag=True, help="Allow an address that is not loopback. Ask its owner first.")
@click.option("--revive", metavar="COMMAND", help="The command that restarts the server if it has died.")
def command(
    address: str,
    seed: int | None,
    only_case: int | None,
    seconds: float,
    requests: int | None,
    apis: str | None,
    exclude: str | None,
    timeout: float,
    out: Path,
    as_json: bool,
    replay_file: Path | None,
    destructive: bool,
    allow_remote: bool,
    revive: str | None,
) -> None:
    """Send valid, odd and damaged requests to a Kafka server, and check its responses.

    Every API and version that the server advertises is tested. Each response must decode completely, and must have the
    right correlation id, known error codes, and fields as the protocol defines them. A valid request must not close the
    connection, and every request must get a response or a close. A violation is reduced to the smallest case and
    written to the --out folder.

    Without --destructive, requests only read, or use groups and producers of the fuzzer's own.

    Exit code: 0 nothing found, 1 finds, 2 wrong usage, 3 the server cannot be reached.
    """
    from kafwire.testing.fuzzer.campaign import Campaign, Options, RemoteError, command_reviver, resolve

    if seed is None:
        seed = secrets.randbelow(1 << 31)
    try:
        if replay_file is not None:
            _replay(replay_file, address, destructive=destructive, allow_remote=allow_remote, timeout=timeout)
            return
        target = resolve(address, allow_remote=allow_remote, timeout=timeout)
        options = Options(
            seed=seed,
            only_case=only_case,
            seconds=seconds,
            requests=requests,
            apis=_names(apis, "--apis"),
            exclude=_names(exclude, "--exclude"),
            destructive=destructive,
            timeout=timeout,
            revive=command_reviver(shlex.split(revive)) if revive else None,
            found=lambda find: find.write(out),
            progress=sys.stderr,
        )
        click.echo(f"fuzzing {target.name} with --seed {seed}", err=True)
        campaign = Campaign(target, options)
    except (RemoteError, ValueError) as error:
        raise click.UsageError(str(error)) from error
    except KafkaError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(_CANNOT_CONNECT)
    result = campaign.run()
    for find in result.finds:
        find.write(out)
    if as_json:
        click.echo(json.dumps(campaign.summary(), indent=2))
    else:
        click.echo(campaign.coverage.table())
        for find in result.finds:
            flaky = "" if not find.flaky else f", flaky: {find.reproduced}"
            click.echo(
                f"find: {find.violation.rule}, {find.api} {find.versions_text}, {find.count} times{flaky}: "
                f"{find.violation.detail} -> {out / find.name}.json"
            )
        covered = campaign.coverage.to_json()
        click.echo(
            f"{covered['requests']} requests in {result.cases} cases and {result.seconds:.0f} s; "
            f"{covered['pairs_answered']} of {covered['pairs']} API versions with a response, "
            f"{covered['pairs_ok']} of them without error; {len(result.finds)} finds; seed {seed}"
        )
        if result.dead:
            click.echo("the server is dead")
    sys.exit(1 if result.finds else 0)


def _names(text: str | None, option: str) -> frozenset[str]:
    from kafwire.testing.fuzzer.safety import CLASS_OF

    names = frozenset(name.strip() for name in (text or "").split(",") if name.strip())
    unknown = names - CLASS_OF.keys()
    if unknown:
        raise click.UsageError(f"{option}: no such API: {', '.join(sorted(unknown))}")
    return names


def _replay(file: Path, address: str, *, destructive: bool, allow_remote: bool, timeout: float) -> None:
    from kafwire.testing.fuzzer import replay
    from kafwire.testing.fuzzer.execute import ForbiddenError

    try:
        find = json.loads(file.read_text())
        said = replay(find, address, destructive=destructive, allow_remote=allow_remote, timeout=timeout)
    except (ForbiddenError, KeyError, TypeError) as error:
        raise click.UsageError(f"{file}: {error}") from error
    for line in said:
        click.echo(line)
    click.echo("reproduced" if said else "not reproduced")
    sys.exit(1 if said else 0)
