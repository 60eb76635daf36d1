"""A campaign from its configuration to its summary: puts the parts together, takes them apart."""

from __future__ import annotations

import math
import os
import platform
import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.epochs import EpochDecider, Epochs
from nnfuzz.campaign.loop import STANDSTILLS, Loop
from nnfuzz.campaign.producer_pool import PoolError, ProducerPool
from nnfuzz.campaign.watchdog import Watchdog
from nnfuzz.campaign.writer import finding_writer
from nnfuzz.feedback.guidance import Guidance, NoFeedback
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import ProbeAnswers, Support
from nnfuzz.feedback.support_cache import SupportCache, SupportTables
from nnfuzz.feedback.throttle import Throttle
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.parts.exchange import Exchange, OwnExchange, SharedExchange
from nnfuzz.parts.leased import Leased
from nnfuzz.parts.shared_leases import SharedLeases
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.lending import Coordinator
from nnfuzz.records.observer import Observer, counted
from nnfuzz.records.rows import FindingRow
from nnfuzz.sandbox.events import Reply, WorkerFault, event_line
from nnfuzz.store.changes import keep_releases
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import MOST_FAULTS, Store
from nnfuzz.store.summary import (
    OwnFigures,
    Summary,
    known_unseen,
    summarise,
    write_summary,
)
from nnfuzz.testcase.jobs import ListVocabulary
from nnfuzz.testcase.service import blames_settings
from nnfuzz.triage.survey import declared
from nnfuzz.upkeep.reducing import Reducer
from nnfuzz.upkeep.rekeying import rekey
from nnfuzz.upkeep.remerge import renew_variants

AHEAD = 16
"""Tests per process that a node of a cluster has at hand: about a second of work."""
KEPT_HANGS = 32
"""Suspected hangs of one backend that wait in memory, with models and inputs, for their turn in a
campaign that the clock ends. A turn takes minutes, and --resume goes on with the others."""
SHOWN = 10  # indexes of tests that are named in one line
_LIBRARIES = ("nnfuzz", "torch", "onnx", "numpy", "z3-solver")


@dataclass(frozen=True)
class CampaignResult:
    """What a session leaves. refused: signature -> why."""

    folder: Path
    summary: Summary
    findings: list[FindingRow]
    refused: dict[str, str]

    @classmethod
    def of(cls, store: Store, summary: Summary) -> CampaignResult:
        """Returns the summary with the findings and refusals of the store."""
        return cls(store.folder, summary, store.findings(), store.restraints.reasons())


@dataclass(frozen=True)
class VersionsByBackend:
    """Versions of the compilers by backend, and of the libraries that make test cases."""

    backends: dict[str, dict[str, str]]
    libraries: dict[str, str]

    def flat(self) -> dict[str, str]:
        """By name; of a compiler in several releases, the others with their backend's label."""
        merged = dict(self.libraries)
        for label, found in self.backends.items():
            for name, told in found.items():
                merged[name if merged.get(name, told) == told else f"{name} of {label}"] = told
        return merged


def run_campaign(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    observer: Observer,
    cache: SupportCache,
    stopped: Callable[[], bool] = lambda: False,
    coordinator: Coordinator | None = None,
) -> CampaignResult:
    """Runs a session of the campaign in `store` and writes its summary.

    coordinator: lends ranges of indexes to this node of a cluster. Without one, a campaign with
    `share` leases them through files.

    Raises: OSError if no coordinator answers, PoolError if workers cannot work (the summary is
    written all the same), RunnerError if a backend cannot start, ConfigError if nothing can be
    generated.
    """
    store.sessions.begin()
    renew_variants(store)  # an earlier session may have been killed between a reduction and this
    if not config.share:  # a published range is not run again
        _try_again(store, config.seed, observer)
    with _open(store, config, registry, observer, cache, stopped, coordinator) as session:
        try:
            session.loop.run()
        finally:
            session.save_support()
            result = session.result()
            write_summary(store.folder, result.summary)
            if session.leased:
                session.leased.close()
    return result


def _try_again(store: Store, seed: int, observer: Observer) -> None:
    """Has the tests made again that a fault of nnfuzz has cost earlier sessions, and says so."""
    again, failed = store.tests.forget_faults(seed)
    if again:
        told = counted(len(again), "test")
        observer.note(f"{told} of earlier sessions ended by a fault of nnfuzz: tried again")
    if failed:
        told = ", ".join(map(str, failed[:SHOWN])) + (", ..." if len(failed) > SHOWN else "")
        observer.note(f"stepped over, after {MOST_FAULTS} faults of nnfuzz at each: tests {told}")


def run_probes(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    observer: Observer,
    cache: SupportCache,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = math.inf,
) -> tuple[CampaignResult, dict[str, Support]]:
    """Probes every signature on every backend, at every level; returns the tables by backend.

    seconds: after which no further signature is begun.
    """
    store.sessions.begin()
    with _open(store, config, registry, observer, cache, stopped, thorough=True) as session:
        try:
            session.loop.probe(seconds)
        finally:
            session.save_support()
        return session.result(), dict(session.prober.tables)


@dataclass(frozen=True)
class _Session:
    config: CampaignConfig
    store: Store
    recorder: Recorder
    loop: Loop
    prober: Prober
    versions: VersionsByBackend
    support: SupportTables
    support_used: list[tuple[Path, int]]
    leased: Leased | None
    watchdog: Watchdog

    def save_support(self) -> None:
        self.support.save(self.prober.tables, self.prober.answers, self.prober.keys)

    def _standstills(self) -> dict[str, int]:
        """By what did not answer, the campaign's own thread included."""
        found, own = self.loop.standstills, self.watchdog.standstills
        if own:
            found["campaign"] += own
            self.watchdog.standstills = 0
            self.store.set_meta(STANDSTILLS, found)
        return dict(found)

    def result(self) -> CampaignResult:
        """Returns what the session leaves."""
        figures, reducer = self.recorder.figures, self.loop.reducer
        self.store.sessions.touch()
        own = OwnFigures(
            figures.full_checks,
            figures.full_check_finds,
            reducer.spent,
            reducer.after_campaign,
            reducer.missing(os.cpu_count() or 1),
            {pool.name: pool.hung for pool in self.loop.backends if pool.hung},
            self._standstills(),
            self.loop.cpu_ms(),
        )
        content = summarise(
            self.store,
            self.config,
            figures,
            own,
            self.loop.epochs.avoided,
            known_unseen=known_unseen(self.store, self.config),
            support_tables=tuple({"path": str(p), "entries": n} for p, n in self.support_used),
        )
        return CampaignResult.of(self.store, content)


@contextmanager
def _open(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    observer: Observer,
    cache: SupportCache,
    stopped: Callable[[], bool],
    coordinator: Coordinator | None = None,
    thorough: bool = False,
) -> Iterator[_Session]:
    with ExitStack() as stack:
        producers = ProducerPool(config.producer, config.seed, config.producers, config.case)
        stack.callback(producers.close)
        pools = []
        for spec in config.backends:
            backlog = KEPT_HANGS if config.timed else math.inf
            pools.append(BackendPool(spec, registry, config.levels, config.workers, backlog))
            stack.callback(pools[-1].close)
        servers = [producers.server, *(pool.server for pool in pools)]
        watchdog = Watchdog(observer.note, lambda: sum(server.looks for server in servers))
        stack.enter_context(watchdog)
        store.sessions.account(config.workers, lambda: {pool.name: pool.seconds for pool in pools})
        versions = _versions(pools, store)
        if config.regressions:
            keep_releases(store, config, registry)
        support = SupportTables(cache, config, versions.backends, versions.libraries)
        answers = ProbeAnswers()
        used = support.load(answers)
        store.probes.load(answers)
        levels = {pool.name: pool.levels if thorough else pool.levels[:1] for pool in pools}
        if not thorough:
            observer.note(_first_steps(config))
        ask = partial(_ask_for_habits, pools, store, observer, config.first_seconds)
        if not thorough and not config.case.invalid:
            ask()  # the producers import PyTorch meanwhile
        prober = _prober(producers, levels, answers, store, observer)
        if thorough and prober.lacks_answers():
            ask()
        write = finding_writer(config, registry, versions.backends, store.restraints.settings_in)
        rekey(store, config, registry, observer.note)
        kinds = [(pool.name, registry.get(pool.spec.name)) for pool in pools]
        exchange: Exchange = OwnExchange(config, store)
        leased = None
        if config.share:
            exchange = shared = SharedExchange(config, versions.flat())
            ahead = AHEAD * max(config.workers, config.producers)
            note, node = observer.note, _name_of_node(store)
            lender = coordinator or SharedLeases(config, node)
            leased = Leased(lender, config, store, shared, note, node, ahead, stopped)
        recorder = Recorder(
            store,
            config.known,
            write,
            observer.finding,
            prober.variables,
            {name: declared(backend) for name, backend in kinds},
            config.regressions,
            config.part,
            leased,
            config.epoch,
        )
        if leased:
            recorder.elsewhere = leased.elsewhere
        for pool in pools:
            pool.works |= recorder.figures.by_backend.get(pool.name, Counter())["ok"] > 0
        slowest = max(pool.pace.ceiling for pool in pools)
        reducer = Reducer(config, recorder, observer.note, leased, slowest)
        stack.callback(reducer.close)
        throttle = Throttle(config.throttle, prober.left(()), _unrestrained(config))
        feedback = Guidance() if config.guidance else NoFeedback()
        decider = EpochDecider(config, recorder, prober, throttle, observer, feedback, exchange)
        epochs = Epochs(config, store, producers, exchange, decider, leased)
        loop = Loop(
            config, recorder, producers, pools, prober, observer, reducer, epochs, stopped, leased
        )
        told = (prober, versions, support, used, leased, watchdog)
        yield _Session(config, store, recorder, loop, *told)


def _name_of_node(store: Store) -> str:
    """Another one in every folder, and the same one in every session."""
    name = str(store.meta("node", "") or secrets.token_hex(8))
    store.set_meta("node", name)
    return name


def _first_steps(config: CampaignConfig) -> str:
    """What happens before and beside the first tests, and for how long, for people."""
    within = f" (for at most {config.first_seconds:.0f} s)" if config.timed else ""
    probes, begins = "", f"begins with elementary models, which show how a compiler rounds{within}"
    if config.tests_limit is not None:
        probes = f"at most {counted(config.probes_before(0), 'probe')} of what it supports"
    elif config.probe_seconds:
        probes = f"probes of what it supports, for at most {config.first_probing:.0f} s at first"
    return f"{begins}; then tests{probes and ', and beside them '}{probes}"


def _ask_for_habits(
    pools: list[BackendPool], store: Store, observer: Observer, seconds: float
) -> None:
    """Asks every compiler what it computes otherwise everywhere, and keeps it for reductions.

    seconds: after which a slow one is not asked any more. Raises: RunnerError.
    """
    for pool in pools:
        habits = pool.learn_habits(seconds)
        if pool.hung:
            told = counted(pool.hung, "elementary model")
            observer.note(f"{pool.name}: {told} took too long and was not waited for")
        if habits:
            told = "; ".join(map(str, habits))
            observer.note(f"{pool.name}: {told}. What only this explains is one finding")
    store.set_habits({pool.name: pool.habits for pool in pools})


def _unrestrained(config: CampaignConfig) -> Callable[[int], bool]:
    """Whether the test of an index is made without restraint."""
    case = replace(config.case, avoid=("anything",))
    return lambda index: not case.restrains(config.seed, index)


def _versions(pools: list[BackendPool], store: Store) -> VersionsByBackend:
    libraries = {"python": platform.python_version()}
    for name in _LIBRARIES:
        try:
            libraries[name] = version(name)
        except PackageNotFoundError:
            libraries[name] = "not installed"
    versions = VersionsByBackend({pool.name: pool.versions() for pool in pools}, libraries)
    store.set_meta("versions", versions.flat())
    return versions


def _prober(
    producers: ProducerPool,
    levels: dict[str, tuple[str, ...]],
    answers: ProbeAnswers,
    store: Store,
    observer: Observer,
) -> Prober:
    """Asks a producer which signatures there are with which exporters.

    Raises: ConfigError, PoolError.
    """
    event = producers.call(ListVocabulary())
    if isinstance(event, Reply):
        vocabulary = event.value
        for note in vocabulary.notes:
            observer.note(note)
        keys = [
            SupportKey.parse(text).with_exporter(exporter)
            for exporter, found in vocabulary.signatures.items()
            for text in found
        ]
        return Prober(levels, keys, vocabulary.variables, answers, store.probes.add)
    text = event_line(event)
    if isinstance(event, WorkerFault) and event.starting and blames_settings(event.error_type):
        raise ConfigError(event.message.strip("'\""))
    raise PoolError(f"producers cannot work: {text}\n{event.captured}")
