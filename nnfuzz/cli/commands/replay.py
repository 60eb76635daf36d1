"""`nnfuzz replay FINDING`: does it still reproduce?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK
from nnfuzz.cli.options import OTHERS, Original, OwnBackend, Plugins

if TYPE_CHECKING:
    from nnfuzz.findings.replay import Replayed
    from nnfuzz.records.finding import Finding


def replay(
    finding: Annotated[Path, typer.Argument(help="Folder of a finding.", show_default=False)],
    backend: OwnBackend = "",
    plugin: Plugins = None,
    regenerate: Annotated[
        bool,
        OTHERS.option(
            "Also make the test case anew from its seed and compare bytes; implies --original."
        ),
    ] = False,
    original: Original = False,
) -> None:
    """Run a finding again. Exit code 1 while it reproduces, 0 once it is fixed.

    \b
    nnfuzz replay campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz replay campaign/findings/tvm-mismatch-eaa1ca026673 --backend onnxruntime

    The reduced model is run where there is one. The answer is: reproduced, different (exit code 1
    as well), unsupported by now, not compared (exit code 4: the model runs, and no element of its
    outputs is comparable), or fixed.
    """
    from nnfuzz.cli.findings import opened_for_run, replayed

    _, opened, spec = opened_for_run(finding, original or regenerate, backend, plugin or [])
    result = replayed(opened, spec, regenerate)
    name = backend.partition(",")[0]
    _show(opened, result, name if name != opened.failure.backend else "")
    raise typer.Exit(FINDINGS if result.fails else OK if result.compared else NOT_COMPARED)


def _show(finding: Finding, result: Replayed, elsewhere: str) -> None:
    """Prints the levels, the failures and the answer. elsewhere: another backend, or ""."""
    from nnfuzz.findings.replay import ReplayResult

    typer.echo(f"finding: {finding.signature}")
    for outcome in result.result.outcomes if result.result else ():
        own = [f for f in result.failures if f.backend == outcome.backend]
        failed = [f for f in own if outcome.level in f.levels]
        kind = failed[0].kind if failed else outcome.kind
        stage = failed[0].stage if failed else outcome.stage
        typer.echo(f"{outcome.backend} {outcome.level}: {kind} ({stage})")
    for failure in result.failures:
        typer.echo(f"failure: {failure.signature}")
    fixed = result.answer is ReplayResult.FIXED
    verdict = result.result.verdict if result.result else None
    if verdict and verdict.coverage:
        typer.echo(f"compared: {verdict.coverage}")
    typer.echo(f"does not fail on {elsewhere}" if elsewhere and fixed else result.answer.value)
