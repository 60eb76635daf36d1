"""The commands on one finding: replay, reduce, bisect, and file."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.backend.issue_form import PLAIN
from nnfuzz.cli.errors import FINDINGS, NOT_COMPARED, OK, UsageError, tell, writing
from nnfuzz.cli.limits import computing
from nnfuzz.cli.options import (
    AMOUNT,
    OTHERS,
    PROCESSES,
    REPORTED,
    FindingFolder,
    Original,
    OwnBackend,
    Plugins,
)

if TYPE_CHECKING:
    from nnfuzz.experiment.bisection import BisectionStep
    from nnfuzz.findings.replay import Replayed
    from nnfuzz.records.finding import Finding
    from nnfuzz.reduction.case import CaseReduction
    from nnfuzz.reduction.engine import ReductionProgress

COMPUTING = 300.0
"""CPU seconds for the text of the issue."""


def replay(
    finding: FindingFolder,
    backend: OwnBackend = "",
    plugin: Plugins = None,
    original: Original = False,
) -> None:
    """Run a finding again. Exit code 1 while it reproduces, 0 once it is fixed.

    \b
    nnfuzz replay campaign/findings/tvm-mismatch-eaa1ca026673

    The reduced model is run where there is one. The answer is: reproduced, different (exit code 1
    as well), unsupported by now, not compared (exit code 4: the model runs, and no element of its
    outputs is comparable), or fixed.
    """
    from nnfuzz.cli.findings import backend_of, opened, replayed

    _, own, consent = opened(finding, plugin or [], original)
    result = replayed(own, backend_of(own, backend, consent))
    name = backend.partition(",")[0]
    _show_answer(own, result, name if name != own.failure.backend else "")
    raise typer.Exit(FINDINGS if result.fails else OK if result.compared else NOT_COMPARED)


def _show_answer(finding: Finding, result: Replayed, elsewhere: str) -> None:
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
        raise typer.Exit(_reduce_campaign(finding, plugin or [], workers, budget))
    _reduce_finding(finding, backend, plugin or [], budget)


def _reduce_campaign(folder: Path, plugins: list[Path], workers: int, budget: int) -> int:
    from nnfuzz.cli.findings import reduced_campaign
    from nnfuzz.cli.progress import Interrupt
    from nnfuzz.cli.summary import findings_text

    with Interrupt() as interrupt:
        findings = reduced_campaign(folder, plugins, workers, budget, interrupt.asked)
    typer.echo(findings_text(folder, findings).rstrip())
    return FINDINGS if findings else OK


def _reduce_finding(finding: Path, backend: str, plugin: list[Path], budget: int) -> None:
    from nnfuzz.cli.findings import reduced
    from nnfuzz.cli.progress import phases
    from nnfuzz.reduction.case import ReduceConfig

    with phases() as show:

        def watch(p: ReductionProgress) -> None:
            show(f"{p.run}/{p.budget} candidates, {p.nodes} nodes, {p.by}")

        done, smallest = reduced(finding, backend, plugin, ReduceConfig(budget, watch=watch))
    _show_reduction(finding, done, smallest)
    raise typer.Exit(FINDINGS)


def _show_reduction(folder: Path, done: CaseReduction, reduced: Finding) -> None:
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


def bisect(
    finding: FindingFolder,
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
    from nnfuzz.cli.findings import backend_of, bisected, opened
    from nnfuzz.findings.replay import NotReproduced, write_bisection

    folder, own, consent = opened(finding, plugin or [], original)
    if (spec := backend_of(own, "", consent)) is None:
        raise UsageError("a finding about an exporter has no compiler to bisect")
    try:
        result = bisected(own, spec, oldest, newest, _show_step)
    except NotReproduced as error:
        typer.echo(str(error))
        raise typer.Exit(OK) from error
    with writing(folder):
        write_bisection(folder, result)
    for bisection in result:
        typer.echo(f"{bisection.compiler} {bisection.result}")
    raise typer.Exit(FINDINGS)


def _show_step(step: BisectionStep) -> None:
    typer.echo(f"{step.release}: {step.answer}" + (f" ({step.seen})" if step.seen else ""))


def file(
    finding: FindingFolder,
    tracker: Annotated[
        str,
        REPORTED.option(
            "Use the tracker of this backend [default: of the finding's].",
            "BACKEND",
        ),
    ] = "",
    original: Original = False,
    ledger: Annotated[
        Path,
        REPORTED.option(
            "The ledger with the bugs that are filed already.", "FOLDER", "--ledger", "-l"
        ),
    ] = Path("bugs"),
    max_open: Annotated[
        int,
        REPORTED.option("Refuse while this many issues of the compiler are open.", "N", min=0),
    ] = 0,
    again: Annotated[
        bool, REPORTED.flag("Print the issue although it is filed already.", "--again")
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Print a finding, or a bug of a ledger, as an issue in the form of the compiler's tracker.

    \b
    nnfuzz file campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz file bugs/tvm/mismatch-pow-c29550 --max-open 5 > issue.md

    The reduced finding is taken where there is one. A finding that the ledger has as filed already
    is refused with exit code 2. Nothing is sent; a note has the search for duplicates.
    """
    from nnfuzz.base.untrusted import read_text
    from nnfuzz.bugs.ledger import Ledger, bugs_of, recognised_by, refusal
    from nnfuzz.cli.findings import backends_of, opened
    from nnfuzz.findings.report import issue

    folder, loaded, consent = opened(finding, plugin or [], original)
    name = tracker or loaded.failure.backend
    registry = backends_of(loaded, consent, name)
    book = Ledger(ledger)
    bugs = book.bugs() if ledger.is_dir() else {}
    own = bugs_of(bugs, *recognised_by({finding, folder}, registry), loaded.system)
    if (refused := refusal(bugs, own, loaded.system, max_open)) and not again:
        raise UsageError(f"{refused}; --again files it all the same")
    bug = "".join(own[:1])
    releases = bugs[bug].releases_line if bug else ""
    script = folder / "repro.py"
    with computing(COMPUTING):  # the value of the standard's reference, among others
        made = issue(
            loaded,
            registry.get(name).issue_form or PLAIN,
            read_text(script) if script.is_file() else "",
            f"It is known in the releases {releases}." if releases else "",
        )
    typer.echo(f"{made.title}\n\n{made.body}")
    for attached in made.attachments:
        tell(f"to be attached by hand: {folder / attached}")
    if made.repository:
        words = f"gh search issues --repo {made.repository} -- {shlex.quote(made.search)}"
        tell(f"to look for duplicates: {words}")
    if bug:
        tell(f"once it is filed: nnfuzz bugs set {bug} state=filed upstream=URL")
    raise typer.Exit(OK)
