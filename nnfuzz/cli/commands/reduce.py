"""`nnfuzz reduce FINDING|CAMPAIGN`: the smallest model that fails in the same way."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.cli.errors import FINDINGS, OK, UsageError
from nnfuzz.cli.options import AMOUNT, PROCESSES, OwnBackend, Plugins

if TYPE_CHECKING:
    from nnfuzz.records.finding import Finding
    from nnfuzz.reduction.case import CaseReduction
    from nnfuzz.reduction.engine import ReductionProgress


def reduce(
    finding: Annotated[
        Path, typer.Argument(help="Folder of a finding, or of a campaign.", show_default=False)
    ],
    backend: OwnBackend = "",
    plugin: Plugins = None,
    workers: Annotated[
        int, PROCESSES.option("Findings of a campaign at a time; 0: one per processor.", "N", min=0)
    ] = 0,
    budget: Annotated[
        int, AMOUNT.option("Candidates that are run at most, per finding.", "N", min=1)
    ] = 800,
) -> None:
    """Reduce a finding to the smallest model that fails in the same way, in FINDING/reduced.

    \b
    nnfuzz reduce campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz reduce campaign

    Of a campaign, all findings that are not reduced yet; those that turn out to be the same are
    merged. Exit code 1 when it is reduced (it still fails), 2 if it no longer reproduces.
    """
    from nnfuzz.store.store import FILE

    workers = workers or os.cpu_count() or 1
    if (finding / FILE).is_file():
        if backend:
            raise UsageError("--backend is for a single finding, not for a campaign")
        raise typer.Exit(_campaign(finding, plugin or [], workers, budget))
    _finding(finding, backend, plugin or [], budget)


def _campaign(folder: Path, plugins: list[Path], workers: int, budget: int) -> int:
    from nnfuzz.cli.findings import reduced_campaign
    from nnfuzz.cli.progress import Interrupt
    from nnfuzz.cli.summary import findings_text

    with Interrupt() as interrupt:
        findings = reduced_campaign(folder, plugins, workers, budget, interrupt.asked)
    typer.echo(findings_text(folder, findings).rstrip())
    return FINDINGS if findings else OK


def _finding(finding: Path, backend: str, plugin: list[Path], budget: int) -> None:
    from nnfuzz.cli.findings import reduced
    from nnfuzz.cli.progress import phases
    from nnfuzz.reduction.case import ReduceConfig

    with phases() as show:

        def watch(p: ReductionProgress) -> None:
            show(f"{p.run}/{p.budget} candidates, {p.nodes} nodes, {p.by}")

        done, smallest = reduced(finding, backend, plugin, ReduceConfig(budget, watch=watch))
    _report(finding, done, smallest)
    raise typer.Exit(FINDINGS)


def _report(folder: Path, done: CaseReduction, reduced: Finding) -> None:
    from nnfuzz.findings.folder import REDUCED
    from nnfuzz.reduction.case import CONFIRMATIONS

    typer.echo(
        f"{done.nodes[0]} -> {done.nodes[1]} nodes, {done.before[6]} -> {done.after[6]} elements; "
        f"{done.run} candidates in {done.seconds:.1f} s"
    )
    for name, counter in done.counters.items():
        if counter.accepted:
            typer.echo(f"  {name}: {counter.accepted} of {counter.run} candidates accepted")
    typer.echo(done.failure.signature.title)
    if reduced.localisation:
        typer.echo(f"accused: {reduced.localisation['party']}")
    if done.confirmed < CONFIRMATIONS:
        typer.echo(f"warning: failed in {done.confirmed} of {CONFIRMATIONS} fresh processes")
    typer.echo(f"written to {folder / REDUCED}")
