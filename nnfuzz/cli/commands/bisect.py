"""`nnfuzz bisect FINDING`: with which release of the compiler did it come?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, OK, UsageError, writing
from nnfuzz.cli.options import OTHERS, Original, Plugins

if TYPE_CHECKING:
    from nnfuzz.experiment.bisection import BisectionStep


def bisect(
    finding: Annotated[Path, typer.Argument(help="Folder of a finding.", show_default=False)],
    oldest: Annotated[
        str,
        OTHERS.option("The oldest release to look at.", "RELEASE", "--from"),
    ] = "",
    newest: Annotated[
        str,
        OTHERS.option("Look up to this newer release where it was fixed.", "RELEASE", "--to"),
    ] = "",
    original: Original = False,
    plugin: Plugins = None,
) -> None:
    """Name the release of the compiler with which a finding came, or with which it was fixed.

    \b
    nnfuzz bisect campaign/findings/onnxruntime-mismatch-eaa1ca026673
    nnfuzz bisect campaign/findings/onnxruntime-mismatch-eaa1ca026673 --from 1.20.0

    A binary search over the releases that the package index lists, each in an environment of its
    own; the result goes into finding.json and report.md. The reduced model is run where there is
    one, and the result goes to it. Exit code 1 while the finding reproduces
    in its own release, 0 once it does not.
    """
    from nnfuzz.cli.findings import bisected, opened_for_run
    from nnfuzz.findings.replay import NotReproduced, write_bisection

    folder, opened, spec = opened_for_run(finding, original, "", plugin or [])
    if spec is None:
        raise UsageError("a finding about an exporter has no compiler to bisect")
    try:
        result = bisected(opened, spec, oldest, newest, _show)
    except NotReproduced as error:
        typer.echo(str(error))
        raise typer.Exit(OK) from error
    with writing(folder):
        write_bisection(folder, result)
    for bisection in result:
        typer.echo(f"{bisection.compiler} {bisection.result}")
    raise typer.Exit(FINDINGS)


def _show(step: BisectionStep) -> None:
    typer.echo(f"{step.release}: {step.answer}" + (f" ({step.seen})" if step.seen else ""))
