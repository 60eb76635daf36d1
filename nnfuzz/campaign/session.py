"""A session of a campaign: opens it, runs its tests, and writes its summary."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner, CompilerServers
from nnfuzz.backend.target import ONNX
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.asking import ask, keys_of, started, vocabulary_of
from nnfuzz.campaign.configuration import library_versions
from nnfuzz.campaign.epochs import Epochs
from nnfuzz.campaign.lane_jobs import Compiler, Enter
from nnfuzz.campaign.lanes import Lanes
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.campaign.scheduler import Scheduler
from nnfuzz.feedback.support import generalised, remaining
from nnfuzz.feedback.tables import TABLES, RefusalTable, claims_of, declined, tables_of
from nnfuzz.findings.folder import write_finding
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.materialize.opsets import exporter_of
from nnfuzz.records.config import EARLY, CampaignConfig, ConfigError
from nnfuzz.records.finding import Finding, Origin
from nnfuzz.records.observer import Observer, counted
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import MOST_FAULTS, Store
from nnfuzz.store.summary import Summary, keep_releases, summarise, write_summary
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.triage.signature import Failure
from nnfuzz.triage.survey import declared, learn_habits, usual_seconds

ASKED = 5
"""How many signatures per test a compiler without a table is asked for before the first test. Two
releases refused 56 signatures in 300 tests: two questions per test would have found 4 of them, five
questions per test 55."""
SHOWN = 10  # indexes of tests that are named in one line


@dataclass(frozen=True)
class CampaignResult:
    """The result of a session. refused: signature -> why."""

    folder: Path
    summary: Summary
    findings: list[FindingRow]
    refused: dict[str, str]

    @classmethod
    def of(cls, store: Store, summary: Summary) -> CampaignResult:
        """Returns the summary with the findings and refusals of the store."""
        return cls(store.folder, summary, store.findings(), store.restraints.reasons())


def run_campaign(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    observer: Observer,
    cache: Path,
    stopped: Callable[[], bool] = lambda: False,
    servers: CompilerServers | None = None,
) -> CampaignResult:
    """Runs a session of the campaign in `store` and writes its summary.

    servers: see Session.

    Raises: PoolError if workers cannot work (the summary is written all the same), RunnerError if a
    backend cannot start, ConfigError if nothing can be generated.
    """
    store.sessions.begin()
    _try_again(store, config, observer)
    servers = servers or CompilerServers()
    with Session(store, config, registry, observer, cache, stopped, servers) as session:
        try:
            session.scheduler.run()
        finally:
            result = session.result()
            write_summary(store.folder, result.summary)
    return result


def _try_again(store: Store, config: CampaignConfig, observer: Observer) -> None:
    """Has the tests made again that earlier sessions lost to a fault of nnfuzz; prints a note."""
    again, failed = store.tests.forget_faults(config.seed)
    if again:
        tests = counted(len(again), "test")
        observer.note(f"{tests} of earlier sessions ended by a fault of nnfuzz: tried again")
    if failed:
        tests = ", ".join(map(str, failed[:SHOWN])) + (", ..." if len(failed) > SHOWN else "")
        observer.note(f"stepped over, after {MOST_FAULTS} faults of nnfuzz at each: tests {tests}")


@dataclass(eq=False)
class Session:
    """The parts of a campaign that is under way; a context manager, which closes them.

    cache: the user's cache folder. servers: of compilers that are imported already; they are closed
    with the session.

    Entering it raises RunnerError, ConfigError or PoolError, as `run_campaign` does.
    """

    store: Store
    config: CampaignConfig
    registry: BackendRegistry
    observer: Observer
    cache: Path
    stopped: Callable[[], bool] = lambda: False
    servers: CompilerServers = field(default_factory=CompilerServers)

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(gc.enable)
            gc.disable()  # a sixth of the time up to the first test, in which little is garbage
            self._open(stack)
            gc.enable()
            gc.freeze()  # what is there by now stays
            stack.callback(gc.unfreeze)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _open(self, stack: ExitStack) -> None:
        config, store, note = self.config, self.store, self.observer.note
        if config.ray:
            try:
                from nnfuzz.campaign.on_ray import Cluster, connected
            except ImportError as error:
                raise ConfigError("setting ray needs Ray: pip install 'nnfuzz[ray]'") from error
            stack.enter_context(connected(config.ray))
        stack.callback(self.servers.close)
        self.runners = started(config.backends, self.registry, self.servers, stack)
        lent = [runner.sandbox.server for runner in self.runners]
        self.lanes = stack.enter_context(Lanes(config, lent, self.cache))
        self._versions = {runner.name: runner.versions() for runner in self.runners}
        self._libraries = library_versions()
        store.set_meta("versions", _flat(self._libraries, self._versions))
        if config.regressions:
            keep_releases(store, config, self.registry)
        limit = f" for at most {config.first_seconds:.0f} s" if config.timed else ""
        note(f"begins with elementary models{limit}, which show how a compiler rounds")
        if not config.case.invalid:
            self._ask_for_habits()  # lanes import PyTorch meanwhile
        vocabulary = vocabulary_of(self.lanes)
        for line in vocabulary.notes:
            note(line)
        keys = keys_of(vocabulary)
        reasons = self._refusals(keys)
        by_design = {s.label: declared(self.registry.get(s.name)) for s in config.backends}
        self.recorder = Recorder(
            store,
            config.known,
            self._write_finding,
            self.observer.finding,
            vocabulary.variables,
            {} if config.defaults else by_design,
            config.regressions,
            config.part,
            config.epoch,
        )
        known = {runner.name: self._known(runner) for runner in self.runners}
        variables = {name: tuple(own) for name, own in vocabulary.variables.items()}
        for runner in self.runners:
            runner.close()  # lanes have workers of their own
        if config.ray:
            self.lanes.look = Cluster(config, self.lanes, self._versions, note).look

        def enter(number: int, epoch: int, case: CaseConfig) -> None:
            seen = tuple(self.recorder.known_in(number))
            self.lanes.enter(Enter(number, epoch, case, seen, known, variables))

        self.scheduler = Scheduler(
            config,
            self.recorder,
            self.lanes,
            self.observer,
            Reducer(config, self.recorder, note),
            Epochs(config, self.recorder, keys, reasons, note, enter),
            self.stopped,
        )

    def result(self) -> CampaignResult:
        """The result of the campaign up to now."""
        self.store.sessions.touch()
        self.store.flush()
        cpu_ms = self.scheduler.cpu_ms()
        summary = summarise(self.store, self.config, self.recorder.figures, cpu_ms=cpu_ms)
        return CampaignResult.of(self.store, summary)

    # -- compilers ----------------------------------------------------------------------------

    def _known(self, runner: BackendRunner) -> Compiler:
        """The knowledge of a compiler that lanes need."""
        ran = self.recorder.figures.by_backend.get(runner.name)
        works = runner.works or bool(ran and ran["ok"])
        return Compiler(runner.habits, runner.release, runner.elementary, works)

    def _ask_for_habits(self) -> None:
        """Determines the habits of every compiler by running models, and keeps them for
        reductions. Raises: RunnerError.
        """
        config, note = self.config, self.observer.note
        for runner in self.runners:
            habits = learn_habits(runner, config.first_seconds)
            levels = config.levels or runner.backend.default_levels()
            usual = usual_seconds(runner, levels, config.first_seconds)
            runner.elementary = max((runner.elementary, *usual.values()))
            if runner.hung:
                models = counted(runner.hung, "elementary model")
                note(f"{runner.name}: {models} took too long and was not waited for")
            if habits:
                listed = "; ".join(map(str, habits))
                note(f"{runner.name}: {listed}. What only this explains is one finding")
        self.store.set_habits({runner.name: runner.habits for runner in self.runners})

    # -- operators ----------------------------------------------------------------------------

    def _refusals(self, keys: Sequence[SupportKey]) -> dict[SupportKey, str]:
        """The signatures that some compiler refuses, with "backend: why". They follow from what its
        adapter declares and from the table of the nearest release. A compiler without a table of
        its release or of an older one is asked.
        """
        config, reasons = self.config, dict[SupportKey, str]()
        if self.store.restraints.last() >= 0:  # an earlier session has asked
            return {SupportKey.parse(k): v for k, v in self.store.restraints.reasons().items()}
        for spec, runner in zip(config.backends, self.runners, strict=True):
            adapter, versions = self.registry.get(spec.name), self._versions[spec.label]
            if not config.probe or adapter(**spec.options).form != ONNX:
                continue
            refused = declined(adapter, keys) | claims_of(adapter, versions)
            if not (adapter.operators or tables_of(adapter, versions)[0]):
                left = [key for key in keys if key not in refused]
                refused |= self._asked(runner, left)
            named = ((key, f"{spec.label}: {why}") for key, why in refused.items())
            reasons |= {key: why for key, why in named if key.operator not in config.case.focus}
        return reasons if remaining(keys, reasons) else {}

    def _asked(self, runner: BackendRunner, keys: Sequence[SupportKey]) -> dict[SupportKey, str]:
        """Asks a compiler for ASKED signatures per test, of one exporter; returns what it refuses,
        and keeps that for `nnfuzz ops`.
        """
        config, versions = self.config, self._versions[runner.name]
        self.observer.note(f"{runner.name}: has no table of what it refuses, so it is asked first")
        own = [k for k in keys if exporter_of(k.exporter) == exporter_of(keys[0].exporter)]
        level = (config.levels or runner.backend.default_levels())[:1]
        until = time.monotonic() + config.first_seconds
        most = ASKED * (config.tests_limit or EARLY)
        refused = generalised(
            ask(self.lanes, runner, own, level, lambda: time.monotonic() > until, most)
        )
        with suppress(OSError):
            RefusalTable(runner.spec.name, versions, refused).write(self.cache / TABLES)
        return refused

    # -- findings -----------------------------------------------------------------------------

    def _write_finding(self, folder: Path, failure: Failure, evidence: Evidence) -> None:
        """Writes the folder of a failure. The configuration in it, with the settings of the epoch
        and the one exporter that the test case was for, makes the same test case again.
        """
        from nnfuzz.findings.reduced import repro_program

        made = evidence.made
        assert made is not None
        settings = self.store.restraints.settings_in(evidence.epoch)
        own = replace(self.config.case, **settings).only(made.generated_for)
        case = made
        if not isinstance(case, TestCase):  # its export failed
            case = TestCase(made.id, made.graph, b"", {}, {}, {}, own.exporter, own.opset)
        changed = evidence.right_release(failure) if self.config.regressions else ""
        specs = {spec.label: spec for spec in self.config.backends}
        finding = Finding(
            failure=failure,
            case=case,
            outcomes=evidence.outcomes,
            backend=specs.get(failure.backend),
            config=as_json(own),
            verdict=evidence.verdict,
            blame=evidence.blame(failure),
            versions=dict(self._versions.get(failure.backend, {})),
            origin=Origin(evidence.epoch, changed),
        )
        write_finding(folder, finding, repro_program(finding, self.registry))


def _flat(
    libraries: Mapping[str, str], by_backend: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Versions of libraries and compilers by name; of a compiler in several releases, the others
    with their backend's label.
    """
    merged = dict(libraries)
    for label, versions in by_backend.items():
        for name, release in versions.items():
            same = merged.get(name, release) == release
            merged[name if same else f"{name} of {label}"] = release
    return merged
