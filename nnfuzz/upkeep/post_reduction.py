"""Reduces the findings of a campaign that has ended, merges them, and mends its summary."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.files import write_atomically
from nnfuzz.base.reading import read
from nnfuzz.base.untrusted import read_json
from nnfuzz.base.writing import as_json
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow
from nnfuzz.sandbox.sandbox import wait
from nnfuzz.store.recorder import Evidence, Recorder
from nnfuzz.store.store import Store
from nnfuzz.triage.signature import Failure
from nnfuzz.upkeep.changes import changes
from nnfuzz.upkeep.reducing import Reducer
from nnfuzz.upkeep.rekeying import rekey

SUMMARY = "summary.json"
SECONDS = 600.0
"""For one finding, when nothing else is waiting for the machine."""
_TICK_SECONDS = 0.25


def reduce_campaign(
    store: Store,
    note: Callable[[str], None],
    workers: int,
    budget: int,
    stopped: Callable[[], bool] = lambda: False,
) -> list[FindingRow]:
    """Reduces what is not reduced yet, those that could not be included; returns all findings.

    What an older nnfuzz has reduced is merged anew.
    workers: see Reducer.dispatch. budget: of one. Raises: ConfigError.
    """
    config = CampaignConfig.from_json(store.config())
    settings = replace(config.reducer, seconds=max(SECONDS, config.reducer.seconds), budget=budget)
    rekey(store, config, BackendRegistry.discover(config.plugins), note)
    recorder = Recorder(store, config.known, _writes_nothing, lambda row: None)
    recorder.forget_failed_reductions()
    recorder.complete = True
    reducer = Reducer(replace(config, reduce=True, reducer=settings), recorder, note)

    def wait_and_feed() -> None:
        for sandbox, event in wait(reducer.sandboxes(), _TICK_SECONDS):
            reducer.feed(sandbox, event)

    try:
        reducer.finish(workers, wait_and_feed, stopped)
    finally:
        reducer.close()
        recorder.arrange()
        _mend_summary(store)
    return store.findings()


def findings_figures(store: Store) -> dict[str, Any]:
    """What a summary says of the findings."""
    findings, reductions = store.findings(), store.reductions.rows()
    return {
        "findings": len(findings),
        "merged": sum(len(row.grouping.duplicates) for row in findings),
        "occurrences": sum(row.occurrences for row in findings),
        "signatures": [_shown(row) for row in findings],
        "unreduced": sum(row.signature not in reductions for row in findings),
        "not_reduced": {s: row.reason for s, row in reductions.items() if row.reason},
        "regressions": changes(store, findings),
        "known": store.occurrences.buckets().get("known", 0),
    }


def _mend_summary(store: Store) -> None:
    path = store.folder / SUMMARY
    if path.exists():
        content = {**read(dict[str, Any], read_json(path)), **findings_figures(store)}
        if not content["unreduced"]:
            content["reduce_seconds_missing"] = 0.0
        write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def _shown(row: FindingRow) -> dict[str, Any]:
    """A row without the times of its discovery."""
    return {k: v for k, v in as_json(row).items() if k not in ("found_at", "place")}


def _writes_nothing(folder: Path, failure: Failure, evidence: Evidence) -> None:
    raise RuntimeError("no finding is new after a campaign")
