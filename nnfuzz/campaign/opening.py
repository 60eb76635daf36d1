"""Assembles a campaign: workers, knowledge about compilers, the loop."""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import CompilerServers
from nnfuzz.backend.target import ONNX
from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.epochs import EpochDecider, Epochs
from nnfuzz.campaign.exchange import Exchange
from nnfuzz.campaign.loop import STANDSTILLS, Loop
from nnfuzz.campaign.producer_pool import PoolError, ProducerPool
from nnfuzz.campaign.watchdog import Watchdog
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
from nnfuzz.store.changes import keep_releases
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.store.summary import OwnFigures, Summary, known_unseen, summarise
from nnfuzz.testcase.jobs import ListVocabulary
from nnfuzz.testcase.service import blames_settings
from nnfuzz.triage.survey import declared
from nnfuzz.upkeep.reducing import Reducer

KEPT_HANGS = 32
"""Suspected hangs of one backend that wait in memory, with models and inputs, for their turn in a
campaign that the clock ends. A turn takes minutes, and --resume goes on with the others."""


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
    loop: Loop
    support: Knowledge
    watchdog: Watchdog

    @property
    def prober(self) -> Prober:
        return self.support.prober

    def summary(self) -> Summary:
        """The summary of the campaign up to now."""
        reducer = self.loop.reducer
        self.store.sessions.touch()
        own = OwnFigures(
            self.recorder.figures.full_checks,
            self.recorder.figures.full_check_finds,
            reducer.spent,
            reducer.after_campaign,
            reducer.missing(os.cpu_count() or 1),
            {pool.name: pool.hung for pool in self.loop.backends if pool.hung},
            self._standstills(),
            self.loop.cpu_ms(),
        )
        return summarise(
            self.store,
            self.config,
            self.recorder.figures,
            own,
            self.loop.epochs.avoided,
            known_unseen=known_unseen(self.store, self.config),
            support_tables=self.support.used,
        )

    def _standstills(self) -> dict[str, int]:
        """How often each kind of process did not answer, the campaign's own thread included."""
        counts, own = self.loop.standstills, self.watchdog.standstills
        if own:
            counts["campaign"] += own
            self.watchdog.standstills = 0
            self.store.set_meta(STANDSTILLS, counts)
        return dict(counts)


@contextmanager
def opened(opening: Opening) -> Iterator[Session]:
    """The parts of a campaign, which are closed in the end.

    Raises: as nnfuzz.campaign.session.run_campaign does.
    """
    with ExitStack() as stack:
        stack.callback(gc.enable)
        gc.disable()  # a sixth of the time up to the first test, in which little becomes garbage
        workers = CampaignWorkers(opening, stack)
        support = Knowledge(opening, workers)
        recorder = _recorder(opening, workers, support)
        slowest = max(pool.pace.ceiling for pool in workers.pools)
        reducer = Reducer(opening.config, recorder, opening.observer.note, slowest)
        stack.callback(reducer.close)
        epochs = _epochs(opening, workers, support.prober, recorder)
        loop = Loop(
            opening.config,
            recorder,
            workers.producers,
            workers.pools,
            support.prober,
            opening.observer,
            reducer,
            epochs,
            opening.stopped,
        )
        watchdog = workers.watchdog
        gc.enable()
        yield Session(opening.config, opening.store, recorder, loop, support, watchdog)


# -- workers ----------------------------------------------------------------------------------


class CampaignWorkers:
    """The processes that make test cases and those that run them, from here on being started."""

    def __init__(self, opening: Opening, stack: ExitStack) -> None:
        """stack: closes them."""
        config = opening.config
        self.producers = ProducerPool(
            config.producer, config.seed, config.producers, config.case, opening.cache.folder
        )
        stack.callback(self.producers.close)
        self.pools: list[BackendPool] = []
        backlog = KEPT_HANGS if config.timed else math.inf
        for spec in config.backends:
            server = opening.servers.of(opening.registry.get(spec.name), spec)
            given = config.levels, config.workers, backlog, server
            pool = BackendPool(spec, opening.registry, *given)
            self.pools.append(pool)
            stack.callback(pool.close)
        watched = [self.producers.server, *(pool.server for pool in self.pools)]
        self.watchdog = Watchdog(
            opening.observer.note, lambda: sum(server.looks for server in watched)
        )
        stack.enter_context(self.watchdog)
        opening.store.sessions.account(
            config.workers, lambda: {pool.name: pool.seconds for pool in self.pools}
        )

    def versions(self) -> VersionsByBackend:
        """Asks every compiler. Raises: RunnerError."""
        return VersionsByBackend(
            {pool.name: pool.versions() for pool in self.pools}, library_versions()
        )


# -- knowledge about compilers ----------------------------------------------------------------


class Knowledge:
    """The knowledge of compilers and their support tables when a session begins.

    used: the support tables of earlier campaigns, with their numbers of entries.
    """

    def __init__(self, opening: Opening, workers: CampaignWorkers) -> None:
        """Raises: RunnerError, ConfigError, PoolError."""
        config, store = opening.config, opening.store
        self.versions = workers.versions()
        store.set_meta("versions", self.versions.flat())
        if config.regressions:
            keep_releases(store, config, opening.registry)
        versions = self.versions
        self.tables = SupportTables(opening.cache, config, versions.backends, versions.libraries)
        answers = ProbeAnswers()
        self.used = tuple(
            {"path": str(path), "entries": entries} for path, entries in self.tables.load(answers)
        )
        store.probes.load(answers)
        if not opening.thorough:
            opening.observer.note(_first_steps(config))
            if not config.case.invalid:
                _ask_for_habits(opening, workers.pools)  # producers import PyTorch meanwhile
        self.prober = _prober(opening, workers, answers, _claims(opening, versions.backends))
        if opening.thorough and self.prober.lacks_answers():
            _ask_for_habits(opening, workers.pools)

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


def _ask_for_habits(opening: Opening, pools: Sequence[BackendPool]) -> None:
    """Determines the habits of every compiler by running models, and keeps them for reductions.

    Raises: RunnerError.
    """
    for pool in pools:
        habits = pool.learn_habits(opening.config.first_seconds)
        if pool.hung:
            models = counted(pool.hung, "elementary model")
            opening.observer.note(f"{pool.name}: {models} took too long and was not waited for")
        if habits:
            listed = "; ".join(map(str, habits))
            note = f"{pool.name}: {listed}. What only this explains is one finding"
            opening.observer.note(note)
    opening.store.set_habits({pool.name: pool.habits for pool in pools})


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


def _prober(
    opening: Opening,
    workers: CampaignWorkers,
    answers: ProbeAnswers,
    claims: Mapping[str, SupportClaims],
) -> Prober:
    """Asks a producer which signatures there are with which exporters.

    Raises: ConfigError, PoolError.
    """
    event = workers.producers.call(ListVocabulary())
    if not isinstance(event, Reply):
        if isinstance(event, WorkerFault) and event.starting and blames_settings(event.error_type):
            raise ConfigError(event.message.strip("'\""))
        raise PoolError(f"producers cannot work: {event_line(event)}\n{event.captured}")
    for note in event.value.notes:
        opening.observer.note(note)
    signatures = event.value.signatures.items()
    keys = [SupportKey.parse(f"{name}:{text}") for name, texts in signatures for text in texts]
    levels = {
        pool.name: pool.levels if opening.thorough else pool.levels[:1] for pool in workers.pools
    }
    add = opening.store.probes.add
    return Prober(levels, keys, event.value.variables, answers, add, claims)


# -- records and decisions --------------------------------------------------------------------


def _recorder(opening: Opening, workers: CampaignWorkers, support: Knowledge) -> Recorder:
    config, store = opening.config, opening.store
    registry, versions = opening.registry, support.versions.backends
    kinds = {pool.name: registry.get(pool.spec.name) for pool in workers.pools}
    recorder = Recorder(
        store,
        config.known,
        finding_writer(config, registry, versions, store.restraints.settings_in),
        opening.observer.finding,
        support.prober.variables,
        {name: declared(backend) for name, backend in kinds.items()},
        config.regressions,
        config.part,
        config.epoch,
    )
    for pool in workers.pools:
        ran = recorder.figures.by_backend.get(pool.name)
        pool.works |= bool(ran and ran["ok"])
    return recorder


def _epochs(
    opening: Opening,
    workers: CampaignWorkers,
    prober: Prober,
    recorder: Recorder,
) -> Epochs:
    config = opening.config
    exchange = Exchange(config, opening.store)
    throttle = Throttle(config.throttle, prober.left(()), _unrestrained(config))
    decider = EpochDecider(config, recorder, prober, throttle, opening.observer, exchange)
    return Epochs(config, opening.store, workers.producers, exchange, decider)


def _unrestrained(config: CampaignConfig) -> Callable[[int], bool]:
    """Whether the test of an index is made without restraint."""
    case = replace(config.case, avoid=("anything",))
    return lambda index: not case.restrains(config.seed, index)
