"""The command ``warmup``."""

from __future__ import annotations

import click

from ._cli_common import Reporter, common_options, count, echo_json, examples


@click.command(
    epilog=examples(
        "lrgittins warmup",
        "NUMBA_CACHE_DIR=/var/cache/numba lrgittins warmup    # where the image sets it too when it runs",
        "lrgittins warmup --only ranking --quiet --json",
    )
)
@click.option("--only", type=click.Choice(["ranking", "selection"]), help="One half instead of both.")
@common_options
def warmup(only: str | None, as_json: bool, seed: int, report: Reporter) -> None:
    """Compile every kernel now, so that no later command waits for it; say where the compiled code is kept."""
    report("compiling, or loading what was compiled before (a minute or two the first time)")
    from ._warmup import warmup as run

    done = run(ranking=only != "selection", selection=only != "ranking", progress=not report.quiet)
    if as_json:
        echo_json(done.to_dict())
        return
    click.echo(f"{count(done.n_compiled, 'kernel')} compiled, {done.n_loaded:,} loaded from the cache, in {done.seconds:.1f} s")
    if done.cache_folder is not None:
        click.echo(f"kept in {done.cache_folder}")
    else:
        click.echo("not kept: no cache folder is in use, so the next process compiles again (set NUMBA_CACHE_DIR to a writable folder)")
