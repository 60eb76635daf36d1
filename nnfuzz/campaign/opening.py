"""Assembles a campaign: workers, knowledge about compilers, the loop."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import BackendRunner, CompilerServers
from nnfuzz.backend.target import ONNX
from nnfuzz.campaign.epochs import EpochDecider, Epochs
from nnfuzz.campaign.lane_jobs import Compiler, Enter
from nnfuzz.campaign.lanes import Lanes, PoolError
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.campaign.scheduler import Scheduler
from nnfuzz.campaign.writer import finding_writer
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import ProbeAnswers, SupportClaims
from nnfuzz.feedback.support_cache import SupportCache, SupportTables, claims_of
from nnfuzz.feedback.throttle import Throttle
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import Observer, counted
from nnfuzz.records.versions import VersionsByBackend, library_versions
from nnfuzz.sandbox.events import Reply, WorkerFault, event_line
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.store.summary import Summary, keep_releases, summarise
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.jobs import ListVocabulary, Vocabulary
from nnfuzz.testcase.service import blames_settings
from nnfuzz.triage.survey import declared, learn_habits, usual_seconds


@dataclass(frozen=True)
class Opening:
    """The options with which a session begins.

    thorough: whether probes run at every level, and nothing but probes is run. servers: of
    compilers that are imported already; they are closed with the session.
    """

    store: Store
    config: CampaignConfig
    registry: BackendRegistry
    observer: Observer
    cache: SupportCache
    stopped: Callable[[], bool] = lambda: False
    thorough: bool = False
    servers: CompilerServers = field(default_factory=CompilerServers)


@dataclass(frozen=True)
class Session:
    """The parts of a campaign that is under way."""

    config: CampaignConfig
    store: Store
    recorder: Recorder
    scheduler: Scheduler
    support: Knowledge

    @property
    def prober(self) -> Prober:
        return self.support.prober

    def summary(self) -> Summary:
        """The summary of the campaign up to now."""
        self.store.sessions.touch()
        self.store.flush()
        return summarise(
            self.store,
            self.config,
            self.recorder.figures,
            self.scheduler.epochs.avoided,
            cpu_ms=self.scheduler.cpu_ms(),
            reduce_seconds_missing=self.scheduler.reducer.missing(self.config.workers),
        )


@contextmanager
def opened(opening: Opening) -> Iterator[Session]:
    """The parts of a campaign, which are closed in the end.

    Raises: as nnfuzz.campaign.session.run_campaign does.
    """
    with ExitStack() as stack:
        stack.callback(gc.enable)
        gc.disable()  # a sixth of the time up to the first test, in which little becomes garbage
        config = opening.config
        runners = _runners(opening, stack)
        servers = [runner.sandbox.server for runner in runners]
        lanes = stack.enter_context(Lanes(config, servers, opening.cache.folder))
        support = Knowledge(opening, runners, lanes)
        recorder = _recorder(opening, support)
        reducer = Reducer(opening.config, recorder, opening.observer.note)
        known = {runner.name: _known(runner, recorder) for runner in runners}
        variables = {name: tuple(own) for name, own in support.variables.items()}
        for runner in runners:
            runner.close()  # lanes have workers of their own
        if config.ray:
            versions = support.versions.backends
            stack.enter_context(_cluster(config, lanes, versions, opening.observer.note))

        def enter(number: int, epoch: int, case: CaseConfig) -> None:
            seen, ignored = tuple(recorder.known_in(number)), tuple(recorder.ignored)
            lanes.enter(Enter(number, epoch, case, seen, ignored, known, variables))

        epochs = _epochs(opening, enter, support.prober, recorder)
        scheduler = Scheduler(
            config,
            recorder,
            lanes,
            support.prober,
            opening.observer,
            reducer,
            epochs,
            opening.stopped,
        )
        gc.enable()
        yield Session(config, opening.store, recorder, scheduler, support)


# -- processes --------------------------------------------------------------------------------


def _runners(opening: Opening, stack: ExitStack) -> list[BackendRunner]:
    """Workers of the compilers, for the questions before the first test. stack: closes them."""
    runners = []
    for spec in opening.config.backends:
        server = opening.servers.of(opening.registry.get(spec.name), spec)
        runner = BackendRunner(spec, opening.registry, server)
        stack.callback(runner.close)
        runner.sandbox.start()
        runners.append(runner)
    stack.callback(opening.servers.close)
    return runners


def _known(runner: BackendRunner, recorder: Recorder) -> Compiler:
    """The knowledge of a compiler that lanes need."""
    ran = recorder.figures.by_backend.get(runner.name)
    works = runner.works or bool(ran and ran["ok"])
    return Compiler(runner.habits, runner.release, runner.elementary, works)


def _cluster(
    config: CampaignConfig,
    lanes: Lanes,
    versions: Mapping[str, Mapping[str, str]],
    note: Callable[[str], None],
) -> AbstractContextManager[object]:
    """Lanes on the nodes of a Ray cluster. Raises: ConfigError."""
    try:
        from nnfuzz.campaign.on_ray import Cluster
    except ImportError as error:
        raise ConfigError("setting ray needs Ray: pip install 'nnfuzz[ray]'") from error
    return Cluster(config, lanes, versions, note)


# -- knowledge about compilers ----------------------------------------------------------------


class Knowledge:
    """The knowledge of compilers and their support tables when a session begins."""

    def __init__(self, opening: Opening, runners: Sequence[BackendRunner], lanes: Lanes) -> None:
        """Raises: RunnerError, ConfigError, PoolError."""
        config, store = opening.config, opening.store
        self.runners = runners
        by_backend = {runner.name: runner.versions() for runner in runners}
        self.versions = VersionsByBackend(by_backend, library_versions())
        store.set_meta("versions", self.versions.flat())
        if config.regressions:
            keep_releases(store, config, opening.registry)
        versions = self.versions
        self.tables = SupportTables(opening.cache, config, versions.backends, versions.libraries)
        answers = ProbeAnswers()
        self.tables.load(answers)
        store.probes.load(answers)
        if not opening.thorough:
            opening.observer.note(_first_steps(config))
            if not config.case.invalid:
                _ask_for_habits(opening, runners)  # lanes import PyTorch meanwhile
        vocabulary = _vocabulary(opening, lanes)
        self.variables = vocabulary.variables
        claims = _claims(opening, versions.backends)
        self.prober = _prober(opening, vocabulary, answers, claims)
        if opening.thorough and self.prober.lacks_answers():
            _ask_for_habits(opening, runners)

    def save(self) -> None:
        """Writes the support tables for later campaigns."""
        self.tables.save(self.prober.tables, self.prober.answers, self.prober.keys)


def _first_steps(config: CampaignConfig) -> str:
    """A sentence on the work before and beside the first tests, with its limits."""
    within = f" (for at most {config.first_seconds:.0f} s)" if config.timed else ""
    probes, begins = "", f"begins with elementary models, which show how a compiler rounds{within}"
    if config.tests_limit is not None:
        probes = f"at most {counted(config.probes_before(0), 'probe')} of what it supports"
    elif config.probe_seconds:
        probes = f"probes of what it supports, for at most {config.first_probing:.0f} s at first"
    return f"{begins}; then tests{probes and ', and beside them '}{probes}"


def _ask_for_habits(opening: Opening, runners: Sequence[BackendRunner]) -> None:
    """Determines the habits of every compiler by running models, and keeps them for reductions.

    Raises: RunnerError.
    """
    config = opening.config
    for runner in runners:
        habits = learn_habits(runner, config.first_seconds)
        levels = config.levels or runner.backend.default_levels()
        usual = usual_seconds(runner, levels, config.first_seconds)
        runner.elementary = max((runner.elementary, *usual.values()))
        if runner.hung:
            models = counted(runner.hung, "elementary model")
            opening.observer.note(f"{runner.name}: {models} took too long and was not waited for")
        if habits:
            listed = "; ".join(map(str, habits))
            note = f"{runner.name}: {listed}. What only this explains is one finding"
            opening.observer.note(note)
    opening.store.set_habits({runner.name: runner.habits for runner in runners})


def _claims(
    opening: Opening, versions: Mapping[str, Mapping[str, str]]
) -> dict[str, SupportClaims]:
    """The support claims that adapters ship of compilers that read ONNX, by backend. A campaign
    that does not learn has none: it could not find out that a table is wrong. Operators of the
    focus are tried whatever a table says.
    """
    claims: dict[str, SupportClaims] = {}
    config = opening.config
    for spec in config.backends if config.learn else ():
        backend = opening.registry.get(spec.name)(**spec.options)
        if backend.form == ONNX:
            own = claims_of(type(backend), versions[spec.label], backend.is_plain)
            wanted = {k: w for k, w in own.reasons.items() if k.operator not in config.case.focus}
            claims[spec.label] = replace(own, reasons=wanted)
    return claims


def _vocabulary(opening: Opening, lanes: Lanes) -> Vocabulary:
    """Asks a lane which signatures there are with which exporters.

    Raises: ConfigError, PoolError.
    """
    event = lanes.call(ListVocabulary())
    if not isinstance(event, Reply):
        if isinstance(event, WorkerFault) and event.starting and blames_settings(event.error_type):
            raise ConfigError(event.message.strip("'\""))
        raise PoolError(f"lanes cannot work: {event_line(event)}\n{event.captured}")
    for note in event.value.notes:
        opening.observer.note(note)
    return event.value


def _prober(
    opening: Opening,
    vocabulary: Vocabulary,
    answers: ProbeAnswers,
    claims: Mapping[str, SupportClaims],
) -> Prober:
    signatures = vocabulary.signatures.items()
    keys = [SupportKey.parse(f"{name}:{text}") for name, texts in signatures for text in texts]
    levels: dict[str, tuple[str, ...]] = {}
    for spec in opening.config.backends:
        usual = opening.config.levels or opening.registry.get(spec.name).default_levels()
        levels[spec.label] = usual if opening.thorough else usual[:1]
    add = opening.store.probes.add
    return Prober(levels, keys, vocabulary.variables, answers, add, claims)


# -- records and decisions --------------------------------------------------------------------


def _recorder(opening: Opening, support: Knowledge) -> Recorder:
    config, store = opening.config, opening.store
    registry, versions = opening.registry, support.versions.backends
    return Recorder(
        store,
        config.known,
        finding_writer(config, registry, versions, store.restraints.settings_in),
        opening.observer.finding,
        support.variables,
        {spec.label: declared(registry.get(spec.name)) for spec in config.backends},
        config.regressions,
        config.part,
        config.epoch,
    )


def _epochs(
    opening: Opening,
    enter: Callable[[int, int, CaseConfig], None],
    prober: Prober,
    recorder: Recorder,
) -> Epochs:
    config = opening.config
    throttle = Throttle(config.throttle, prober.left(()), _unrestrained(config))
    decider = EpochDecider(config, recorder, prober, throttle, opening.observer)
    return Epochs(config, opening.store, enter, decider)


def _unrestrained(config: CampaignConfig) -> Callable[[int], bool]:
    """Whether the test of an index is made without restraint."""
    case = replace(config.case, avoid=("anything",))
    return lambda index: not case.restrains(config.seed, index)
