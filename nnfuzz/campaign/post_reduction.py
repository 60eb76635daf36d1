"""Reduces the findings of a campaign that has ended, merges them, and mends its summary."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import CompilerServers
from nnfuzz.campaign.lanes import Lanes
from nnfuzz.campaign.reducing import Reducer
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.store.summary import SUMMARY, read_summary, with_findings, write_summary
from nnfuzz.triage.signature import Failure

SECONDS = 600.0
"""The time for one finding, when nothing else is waiting for the machine."""
_TICK_SECONDS = 0.25


def reduce_campaign(
    store: Store,
    note: Callable[[str], None],
    workers: int,
    budget: int,
    stopped: Callable[[], bool] = lambda: False,
) -> list[FindingRow]:
    """Reduces the findings that are not reduced yet, failed attempts included; returns all
    findings.

    workers: findings at a time. budget: of one. Raises: ConfigError.
    """
    config = CampaignConfig.from_json(store.config())
    settings = replace(config.reducer, seconds=max(SECONDS, config.reducer.seconds), budget=budget)
    config = replace(config, reduce=True, reducer=settings, workers=workers)
    recorder = Recorder(store, config.known, _writes_nothing, lambda row: None)
    recorder.forget_failed_reductions()
    recorder.complete = True
    reducer = Reducer(config, recorder, note)
    registry = BackendRegistry.discover(config.plugins)
    with ExitStack() as stack:
        compilers = CompilerServers()
        stack.callback(compilers.close)
        servers = [compilers.of(registry.get(spec.name), spec) for spec in config.backends]
        lanes = stack.enter_context(Lanes(config, servers, store.folder, only_reduces=True))
        lanes.reduced = reducer.ended
        try:
            while reducer.left and not stopped():
                lanes.dispatch(lambda lane: reducer.next(math.inf))
                lanes.wait(_TICK_SECONDS)
        finally:
            reducer.drop()
            recorder.arrange()
            _mend_summary(store)
    return store.findings()


def _mend_summary(store: Store) -> None:
    if (store.folder / SUMMARY).exists():
        content = with_findings(read_summary(store.folder), store)
        if not content.unreduced:
            content = replace(content, reduce_seconds_missing=0.0)
        write_summary(store.folder, content)


def _writes_nothing(folder: Path, failure: Failure, evidence: Evidence) -> None:
    raise RuntimeError("no finding is new after a campaign")
