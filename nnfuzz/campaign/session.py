"""A session of a campaign: opens it, runs its loop, and writes its summary."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import CompilerServers
from nnfuzz.campaign.opening import Opening, opened
from nnfuzz.feedback.support import Support
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Observer, counted
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.store import MOST_FAULTS, Store
from nnfuzz.store.summary import Summary, write_summary

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
    cache: SupportCache,
    stopped: Callable[[], bool] = lambda: False,
    servers: CompilerServers | None = None,
) -> CampaignResult:
    """Runs a session of the campaign in `store` and writes its summary.

    servers: see Opening.

    Raises: PoolError if workers cannot work (the summary is written all the same), RunnerError if a
    backend cannot start, ConfigError if nothing can be generated.
    """
    store.sessions.begin()
    _try_again(store, config, observer)
    opening = Opening(store, config, registry, observer, cache, stopped)
    opening = replace(opening, servers=servers) if servers else opening
    with opened(opening) as session:
        try:
            session.scheduler.run()
        finally:
            session.support.save()
            result = CampaignResult.of(store, session.summary())
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


def run_probes(
    store: Store,
    config: CampaignConfig,
    registry: BackendRegistry,
    observer: Observer,
    cache: SupportCache,
    stopped: Callable[[], bool] = lambda: False,
    seconds: float = math.inf,
) -> tuple[CampaignResult, dict[str, Support]]:
    """Probes every signature on every backend, at every level; returns the tables by backend, and
    as `refused` what they and the tables of adapters refuse.

    seconds: after which no further signature is begun.
    """
    store.sessions.begin()
    opening = Opening(store, config, registry, observer, cache, stopped, thorough=True)
    with opened(opening) as session:
        try:
            session.scheduler.probe(seconds)
        finally:
            session.support.save()
        refused = {str(key): why for key, why in session.prober.refused().items()}
        result = replace(CampaignResult.of(store, session.summary()), refused=refused)
        return result, session.prober.with_inferred()
