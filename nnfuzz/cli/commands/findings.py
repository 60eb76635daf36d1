"""The commands on one finding: replay, reduce, bisect, and file."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nnfuzz.backend.contract import PLAIN
from nnfuzz.backend.interface import check_inputs, read_interface
from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import releases_of
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.untrusted import in_order, making_sense, parsed_model, read_model, read_text
from nnfuzz.bugs.ledger import Ledger, bugs_of, recognised_by, refusal
from nnfuzz.campaign.reducing import reduce_campaign
from nnfuzz.cli.consent import Consent
from nnfuzz.cli.errors import (
    FINDINGS,
    NOT_COMPARED,
    OK,
    UsageError,
    tell,
    write_whole,
    writing,
)
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
from nnfuzz.cli.progress import Interrupt, phases
from nnfuzz.cli.reports import findings_text
from nnfuzz.experiment.bisection import BisectionStep
from nnfuzz.findings.folder import REDUCED, FindingError, read_finding, smallest
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.findings.replay import (
    NotReproduced,
    Releases,
    Replayed,
    ReplayResult,
    replay_export,
    replay_finding,
    write_bisection,
)
from nnfuzz.findings.report import issue
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.reduction.case import CaseReduction, NotReduced, ReduceConfig
from nnfuzz.reduction.engine import ReductionProgress
from nnfuzz.store.store import FILE, Store
from nnfuzz.testcase.case import ModelError
from nnfuzz.testcase.client import ProducerClient

if TYPE_CHECKING:
    import numpy as np
    import onnx

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
    _, own, consent = opened(finding, plugin or [], original)
    spec = backend_of(own, backend, consent)
    with _producer_of(own) as producer:
        if not own.case.model:
            result = replay_export(own, producer)
        elif spec is None:
            raise FindingError("the finding names no backend: say --backend NAME")
        else:
            with BackendRunner(spec) as runner:
                result = replay_finding(own, runner, producer, thorough=True)
    name = backend.partition(",")[0]
    _show_answer(own, result, name if name != own.failure.backend else "")
    raise typer.Exit(FINDINGS if result.fails else OK if result.compared else NOT_COMPARED)


def _show_answer(finding: Finding, result: Replayed, elsewhere: str) -> None:
    """Prints the levels, the failures and the answer. elsewhere: another backend, or ""."""
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
        Path,
        typer.Argument(
            metavar="FINDING|MODEL.onnx",
            help="Folder of a finding, or of a campaign; or a model.",
            show_default=False,
        ),
    ],
    backend: OwnBackend = "",
    plugin: Plugins = None,
    workers: Annotated[
        int, PROCESSES.option("Findings of a campaign at a time; 0: one per processor.", "N", min=0)
    ] = 0,
    budget: Annotated[
        int, AMOUNT.option("Candidates that are run at most, per finding.", "N", min=1)
    ] = 800,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[-- COMMAND...]",
            help="For a model: what fails with it. {} is the path of the model, {inputs} that of "
            "inputs for it (.npz).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Reduce a finding to the smallest model that fails in the same way, in FINDING/reduced.

    \b
    nnfuzz reduce campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz reduce campaign
    nnfuzz reduce mine.onnx -- python run.py {}

    Of a campaign, all findings that are not reduced yet; those that turn out to be the same are
    merged. A model loses nodes and outputs as long as the command exits with the same code; let it
    be one of its own, such as 77, since Python exits with 1 for every mistake in the command.
    Exit code 1 when it is reduced (it still fails), 2 if it no longer reproduces.
    """
    if finding.is_file():
        _reduce_model(finding, command or [], budget)
        raise typer.Exit(FINDINGS)
    if command:
        raise UsageError(f"{finding} is no model: a command is for a model of yours")
    if (finding / FILE).is_file():
        if backend:
            raise UsageError("--backend is for a single finding, not for a campaign")
        with Store.open(finding) as store, Interrupt() as interrupt:
            config = CampaignConfig.from_json(store.config())
            Consent(finding, plugin or []).require(config.plugins)
            if config.case.invalid:
                raise FindingError(NOTHING_TO_REDUCE)
            workers = workers or os.cpu_count() or 1
            rows = reduce_campaign(store, tell, workers, budget, interrupt.asked)
        typer.echo(findings_text(finding, rows).rstrip())
        raise typer.Exit(FINDINGS if rows else OK)
    _reduce_finding(finding, backend, plugin or [], budget)
    raise typer.Exit(FINDINGS)


def _reduce_model(file: Path, words: Sequence[str], budget: int) -> None:
    """Writes the smallest model beside the model. Raises: UsageError, Unreadable, NotReduced."""
    from nnfuzz.base.files import npz_bytes
    from nnfuzz.reduction.by_command import INPUTS, ModelReduction, count_nodes

    if not words:
        raise UsageError(f"{file} is a model: add a command that fails with it, -- COMMAND")
    model, out = in_order(read_model(file), file), file.with_name(f"{file.stem}-reduced.onnx")
    values = _values(model, file) if INPUTS in words else {}

    def adopt(smaller: onnx.ModelProto, inputs: Mapping[str, np.ndarray]) -> None:
        write_whole(out, smaller.SerializeToString())
        if inputs:
            write_whole(out.with_suffix(".npz"), npz_bytes(inputs))

    with phases() as show:

        def watch(runs: int, nodes: int) -> None:
            show(f"{runs}/{budget} runs, {nodes} nodes")

        reduction = ModelReduction(model, words, values, budget, adopt, watch)
        try:
            done = reduction.reduce()
        except (NotReduced, OSError) as error:
            raise FindingError(f"{file}: {error}") from error
    counts = [*map(count_nodes, (model, done))]
    typer.echo(f"{counts[0]} -> {counts[1]} nodes; {reduction.runs} runs of the command")
    typer.echo(f"written to {out}" if done is not model else "nothing can be left out")


def _values(model: onnx.ModelProto, file: Path) -> dict[str, np.ndarray]:
    """Valid inputs of a model, and what it computes from them. Raises: UsageError."""
    from nnfuzz.library.checking import cases_to_check
    from nnfuzz.testcase.extraction import values_of

    with computing(COMPUTING):
        try:
            case = next(cases_to_check(model, None, 0, ())[0])
            return {**values_of(model, case.inputs), **case.inputs}
        except ModelError as error:
            raise UsageError(f"{file}: {error}") from error


def _reduce_finding(folder: Path, backend: str, plugins: Iterable[Path], budget: int) -> None:
    """Raises: FindingError for a finding that cannot be reduced, or no longer reproduces."""
    _, finding, consent = opened(folder, plugins)
    spec = backend_of(finding, backend, consent)
    if finding.case.fault:
        raise FindingError(NOTHING_TO_REDUCE)
    with _producer_of(finding):
        pass  # its test case is whole
    with phases() as show:

        def watch(p: ReductionProgress) -> None:
            show(f"{p.run}/{p.budget} candidates, {p.nodes} nodes, {p.by}")

        try:
            config = ReduceConfig(budget, watch=watch)
            done, smallest = reduce_folder(folder, config, spec, trusted=consent)
        except NotReduced as error:
            raise FindingError(f"{folder}: {error}") from error
    _show_reduction(folder, done, smallest)


def _show_reduction(folder: Path, done: CaseReduction, reduced: Finding) -> None:
    own = done.figures
    typer.echo(
        f"{own.nodes[0]} -> {own.nodes[1]} nodes, {own.elements[0]} -> {own.elements[1]} elements; "
        f"{own.candidates} candidates in {own.seconds:.1f} s"
    )
    typer.echo(done.failure.signature.title)
    if reduced.localisation:
        typer.echo(f"accused: {reduced.localisation['party']}")
    failed, runs = own.confirmed
    if failed < runs:
        typer.echo(f"warning: failed in {failed} of {runs} fresh processes")
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
    folder, own, consent = opened(finding, plugin or [], original)
    if (spec := backend_of(own, "", consent)) is None:
        raise UsageError("a finding about an exporter has no compiler to bisect")
    registry = BackendRegistry.discover(spec.plugins)
    backend = registry.get(spec.name)
    if not backend.distribution:
        raise FindingError(
            f"{spec.name} names no package (Backend.distribution), so it has no releases to bisect"
        )
    listed = releases_of(backend)
    for asked in filter(None, (oldest, newest)):
        if asked not in listed:
            raise FindingError(f"{spec.name} has no release {asked}; there are {', '.join(listed)}")
    typer.echo(f"finding: {own.signature}")
    try:
        with _producer_of(own) as producer:
            releases = Releases(own, spec, registry, producer, listed, _show_step)
            result = releases.bisect(oldest, newest)
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
    again: Annotated[
        bool, REPORTED.flag("Print the issue although it is filed already.", "--again")
    ] = False,
    plugin: Plugins = None,
) -> None:
    """Print a finding, or a bug of a ledger, as an issue in the form of the compiler's tracker.

    \b
    nnfuzz file campaign/findings/tvm-mismatch-eaa1ca026673
    nnfuzz file bugs/tvm/mismatch-pow-c29550 > issue.md

    The reduced finding is taken where there is one. A finding that the ledger has as filed already
    is refused with exit code 2. Nothing is sent; a note has the search for duplicates.
    """
    folder, loaded, consent = opened(finding, plugin or [], original)
    name = tracker or loaded.failure.backend
    registry = backends_of(loaded, consent, name)
    book = Ledger(ledger)
    bugs = book.bugs() if ledger.is_dir() else {}
    own = bugs_of(bugs, *recognised_by({finding, folder}, registry), loaded.system)
    if (refused := refusal(bugs, own)) and not again:
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


# -- findings as commands take them ------------------------------------------------------------

NOTHING_TO_REDUCE = (
    "invalid models have a handful of operators from the start: there is nothing to reduce"
)


def open_finding(folder: Path, consent: Consent) -> Finding:
    """The finding in a folder with a model that makes sense, and with the plug-ins that may run.

    Raises: Unreadable, FindingError if there is none or a file of it is damaged or missing.
    """
    finding = read_finding(folder, consent)
    plugins = dict.fromkeys([*finding.config["plugins"], *consent.given])
    finding = replace(finding, config={**finding.config, "plugins": list(plugins)})
    case, file = finding.case, folder / "model.onnx"
    if not case.model:
        if finding.failure.stage is not Stage.EXPORT:  # only an exporter's finding may lack it
            raise FindingError(f"{file} is missing or empty: copy the whole folder of the finding")
        return finding
    parsed_model(case.model, file)
    if not case.graph:
        raise FindingError(f"{folder}: there is no graph of the model; its repro.py runs it")
    if case.fault:  # the fault may be in the declared inputs, which then fit none
        return finding
    with making_sense(folder):
        declared = read_interface(case.model)[0]
        for inputs in case.fed:
            check_inputs(declared, inputs)
    return finding


def opened(
    finding: Path, plugins: Iterable[Path], original: bool = True
) -> tuple[Path, Finding, Consent]:
    """The folder of a finding, or of the reduced one in it unless `original`; what it holds; and
    which plug-ins may run. Raises: as `open_finding` does.
    """
    folder = finding if original else smallest(finding)
    if folder != finding:
        tell(f"the reduced model is taken, {folder}; --original takes the one it came from")
    consent = Consent(folder, plugins)
    return folder, open_finding(folder, consent), consent


def backends_of(finding: Finding, consent: Consent, needed: str = "") -> BackendRegistry:
    """All backends: those of plug-ins that the command names and of the finding's own as well.

    needed: name of a backend that must be there.
    Raises: RegistryError; UsageError if the needed one is in a plug-in that may not run.
    """
    own = finding.backend
    stored = [path for path in (own.plugins if own else ()) if Path(path).is_file()]
    registry = BackendRegistry.discover([*consent.given, *stored])
    if needed and consent.refused and needed not in registry.names():
        raise consent.error()
    return registry


def backend_of(finding: Finding, text: str, consent: Consent) -> BackendSpec | None:
    """The backend that `text` asks for; if it is empty, the finding's own with its options. None if
    neither names a backend, or the finding has no model.

    Raises: RegistryError, OptionError; UsageError if the backend is one that may not run.
    """
    own = finding.backend
    if not finding.case.model:
        return None
    registry = backends_of(finding, consent, own.name if own and not text else "")
    for plugin in consent.refused:
        typer.echo(f"not run: the plug-in {plugin}, which the finding names", err=True)
    if text:
        return registry.parse(text)
    if own is None:
        return None
    return replace(registry.spec(own.name, own.options, own.release), label=own.label)


@contextmanager
def _producer_of(finding: Finding) -> Iterator[ProducerClient]:
    """A producer in the configuration of a finding. Raises: Unreadable for a damaged test case."""
    with ProducerClient(finding.case.id.seed, finding.config) as producer:
        if finding.case.model and not finding.case.fault:
            producer.check(finding.case)
        yield producer
