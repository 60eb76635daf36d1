"""Findings as commands take them: a checked folder, the backend to run it on, and what is done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import typer

from nnfuzz.backend.interface import check_inputs, read_interface
from nnfuzz.backend.outcome import Stage
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.releases import releases_of
from nnfuzz.backend.runner import BackendRunner
from nnfuzz.base.untrusted import making_sense, parsed_model
from nnfuzz.campaign.reducing import reduce_campaign
from nnfuzz.cli.consent import Consent
from nnfuzz.cli.errors import tell
from nnfuzz.experiment.bisection import Bisection, BisectionStep
from nnfuzz.findings.folder import FindingError, read_finding, smallest
from nnfuzz.findings.reduced import reduce_folder
from nnfuzz.findings.replay import Releases, Replayed, replay_export, replay_finding
from nnfuzz.ir.sizes import by_copy
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.finding import Finding
from nnfuzz.records.rows import FindingRow
from nnfuzz.reduction.case import CaseReduction, NotReduced, ReduceConfig
from nnfuzz.store.store import Store
from nnfuzz.testcase.client import ProducerClient

NOTHING_TO_REDUCE = (
    "invalid models have a handful of operators from the start: there is nothing to reduce"
)


def chosen_model(finding: Path, original: bool) -> Path:
    """The folder of the reduced model where a finding has one and `original` is not asked for; else
    the finding's own. A note names the model that is taken.
    """
    folder = finding if original else smallest(finding)
    if folder != finding:
        tell(f"the reduced model is taken, {folder}; --original takes the one it came from")
    return folder


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
        for inputs in by_copy(case.inputs) if case.exporter == DYNAMIC else [case.inputs]:
            check_inputs(declared, inputs)
    return finding


def opened(
    finding: Path, plugins: Iterable[Path], original: bool = True
) -> tuple[Path, Finding, Consent]:
    """The folder of the chosen model, its finding, and which plug-ins may run. Raises: as
    `open_finding` does.
    """
    folder = chosen_model(finding, original)
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


def replayed(finding: Finding, spec: BackendSpec | None) -> Replayed:
    """Runs a finding again, on a backend; None for the finding of an exporter, without a model.

    Raises: FindingError, RunnerError, ProducerError.
    """
    with _producer_of(finding) as producer:
        if not finding.case.model:
            return replay_export(finding, producer)
        if spec is None:
            raise FindingError("the finding names no backend: say --backend NAME")
        with BackendRunner(spec) as runner:
            return replay_finding(finding, runner, producer, thorough=True)


def bisected(
    finding: Finding,
    spec: BackendSpec,
    oldest: str,
    newest: str,
    answered: Callable[[BisectionStep], None],
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
    typer.echo(f"finding: {finding.signature}")
    with _producer_of(finding) as producer:
        releases = Releases(finding, spec, registry, producer, listed, answered)
        return releases.bisect(oldest, newest)


def reduced(
    folder: Path, text: str, plugins: Iterable[Path], config: ReduceConfig
) -> tuple[CaseReduction, Finding]:
    """Reduces a finding, and writes the smallest one into FINDING/reduced. text: names a backend.

    Raises: FindingError for a finding that cannot be reduced, or no longer reproduces; RunnerError,
    WorkerError, and as `opened`.
    """
    _, finding, consent = opened(folder, plugins)
    spec = backend_of(finding, text, consent)
    if finding.case.fault:
        raise FindingError(NOTHING_TO_REDUCE)
    with _producer_of(finding):
        pass  # its test case is whole
    try:
        return reduce_folder(folder, config, spec, trusted=consent)
    except NotReduced as error:
        raise FindingError(f"{folder}: {error}") from error


def reduced_campaign(
    campaign: Path, plugins: Iterable[Path], workers: int, budget: int, asked: Callable[[], bool]
) -> list[FindingRow]:
    """Reduces all findings of a campaign that are not reduced yet; returns those that remain.

    asked: whether the user wants it to end. Raises: FindingError for a campaign of invalid models;
    StoreError, and as Consent.require.
    """
    with Store.open(campaign) as store:
        config = CampaignConfig.from_json(store.config())
        Consent(campaign, plugins).require(config.plugins)
        if config.case.invalid:
            raise FindingError(NOTHING_TO_REDUCE)
        return reduce_campaign(store, tell, workers, budget, asked)
