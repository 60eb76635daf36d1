"""Findings in folders: opened, replayed, reduced."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from nnfuzz.backend.interface import check_inputs, read_interface
from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import releases_of
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.untrusted import making_sense, parsed_model
from nnfuzz.campaign.post_reduction import reduce_campaign
from nnfuzz.experiment.bisection import Bisection, BisectionStep
from nnfuzz.findings import replay as engine
from nnfuzz.findings.folder import FindingError, Trust, read_finding
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.findings.replay import Releases, Replayed, regeneration, replay_export
from nnfuzz.ir.sizes import by_copy
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.records.observer import Note, ignore
from nnfuzz.records.rows import FindingRow
from nnfuzz.reduction.case import CaseReduction, NotReduced, ReduceConfig
from nnfuzz.store.store import Store
from nnfuzz.testcase.client import ProducerClient

NOTHING_TO_REDUCE = (
    "invalid models have a handful of operators from the start: there is nothing to reduce"
)


def open_finding(folder: Path, trust: Trust) -> Finding:
    """The finding in a folder, with a model that makes sense.

    trust: says which of its plug-ins may run.
    Raises: Unreadable, FindingError if there is none or a file of it is damaged or missing.
    """
    finding = read_finding(folder, trust)
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
        for inputs in by_copy(case.inputs) if case.exporter == DYNAMIC else [case.inputs]:
            check_inputs(declared, inputs)
    return finding


def replay(
    finding: Finding, spec: BackendSpec | None, regenerate: bool = False, note: Note = ignore
) -> Replayed:
    """Runs a finding again, on a backend.

    spec: None for the finding of an exporter, which has no model. regenerate: whether the test case
    is also made anew from its seed; a note says how it differs.
    Raises: FindingError, RunnerError, ProducerError.
    """
    if regenerate and finding.origin.reduction:
        raise FindingError("a reduced test case has no seed: --regenerate is for what it came from")
    with ProducerClient(finding.case.id.seed, finding.config) as producer:
        if regenerate:
            differences = regeneration(finding, producer.produce(finding.case.id))
            says = "; ".join(differences) or "byte for byte the same test case"
            note(f"regenerated {finding.case.id}: {says}")
        if not finding.case.model:
            return replay_export(finding, producer)
        if spec is None:
            raise FindingError("the finding names no backend: say --backend NAME")
        if not finding.case.fault:
            producer.check(finding.case)
        with BackendRunner(spec) as runner:
            return engine.replay_finding(finding, runner, producer.judge, producer)


def bisect_finding(
    finding: Finding,
    spec: BackendSpec,
    oldest: str = "",
    newest: str = "",
    note: Note = ignore,
    answered: Callable[[BisectionStep], None] = lambda step: None,
) -> list[Bisection]:
    """Finds the release of the compiler with which a finding came, and the one with which it went.

    oldest, newest: releases between which to look (nnfuzz.findings.replay.Releases.bisect).
    answered: receives the answer of each release.
    Raises: FindingError if there are no such releases, NotReproduced, RunnerError, ProducerError.
    """
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
    note(f"finding: {finding.signature}")
    with ProducerClient(finding.case.id.seed, finding.config) as producer:
        if not finding.case.fault:
            producer.check(finding.case)
        releases = Releases(finding, spec, registry, producer.judge, listed, answered)
        return releases.bisect(oldest, newest)


def reduce_in_folder(
    folder: Path, finding: Finding, spec: BackendSpec | None, config: ReduceConfig, trust: Trust
) -> tuple[CaseReduction, Finding]:
    """Reduces an opened finding, and writes the smallest one into FINDING/reduced.

    Raises: FindingError for a finding that cannot be reduced, or no longer reproduces; RunnerError,
    WorkerError.
    """
    if finding.case.fault:
        raise FindingError(NOTHING_TO_REDUCE)
    with ProducerClient(finding.case.id.seed, finding.config) as producer:
        producer.check(finding.case)
    try:
        return reduce_folder(folder, config, spec, trusted=trust)
    except NotReduced as error:
        raise FindingError(f"{folder}: {error}") from error


def reduce_findings(
    campaign: Path,
    allow: Callable[[Iterable[str]], None],
    note: Note,
    workers: int,
    budget: int,
    interrupted: Callable[[], bool],
) -> list[FindingRow]:
    """Reduces all findings of a campaign that are not reduced yet; returns those that remain.

    allow: raises an error if one of the campaign's plug-ins may not run.
    Raises: FindingError for a campaign of invalid models; StoreError, and what `allow` raises.
    """
    with Store.open(campaign) as store:
        config = CampaignConfig.from_json(store.config())
        allow(config.plugins)
        if config.case.invalid:
            raise FindingError(NOTHING_TO_REDUCE)
        return reduce_campaign(store, note, workers, budget, interrupted)
