"""A backend that never returns from some models: the other tests run, and no hang is lost."""

from __future__ import annotations

import json
from pathlib import Path

import drive
import pytest

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.store.store import Store

TESTS, HANGS = 70, (19, 39, 59)


class Watching(Silent):
    """Remembers what was shown, and ends the session once so many tests did not hang."""

    def __init__(self, enough: int) -> None:
        self.enough = enough
        self.shown = []

    def update(self, snapshot) -> None:
        self.shown.append(snapshot)

    def stopped(self) -> bool:
        if not self.shown:
            return False
        return self.shown[-1].tests - self.shown[-1].outcomes["timeout"] >= self.enough


def session(folder: Path, backend: str, enough: int = 10 * TESTS, plan: str = "drowsy", **more):
    """One session, the first one or one more; summary and what was shown."""
    config, registry = drive.settings(TESTS, plan, backend, **more)
    begun = (folder / "campaign.sqlite").exists()
    with Store.open(folder) if begun else Store.create(folder, as_json(config)) as store:
        watching = Watching(enough)
        cache = folder / "cache"
        run_campaign(store, config, registry, watching, cache, watching.stopped)
    return json.loads((folder / "summary.json").read_text()), watching.shown


def hung(summary) -> list[int]:
    return [int(row["test"].rpartition("/")[2]) for row in summary["unconfirmed_hangs"]]


def test_a_hang_stops_nothing_and_is_told_at_the_end(tmp_path):
    """A minute of time limit, and a session that ends long before."""
    others = TESTS - len(HANGS)
    limits = {"time_limit": 1000.0, "patience": 0.3}
    summary, _ = session(tmp_path / "c", "hostile,timeout=60", others, **limits)
    assert summary["tests"] == TESTS and summary["outcomes"]["timeout"] == len(HANGS)
    assert hung(summary) == list(HANGS)
    assert summary["hangs"] == {"unconfirmed": len(HANGS)}


def test_what_is_not_confirmed_in_time_is_confirmed_by_another_session(tmp_path):
    """One of them, with the whole time limit: the others are of the same pattern."""
    folder, backend = tmp_path / "c", "hostile,timeout=2"
    limits = {"time_limit": 1000.0, "patience": 0.3}
    first, _ = session(folder, backend, TESTS - len(HANGS), **limits)
    assert first["hangs"] == {"unconfirmed": len(HANGS)}
    # The time is up, but for what is left to be decided.
    second, _ = session(folder, backend, **{**limits, "time_limit": 0.001})
    assert second["hangs"] == {"confirmed": len(HANGS)}
    assert second["unconfirmed_hangs"] == []
    assert second["tests"] == TESTS and second["outcomes"]["timeout"] == len(HANGS)
    assert (second["findings"], second["occurrences"]) == (1, len(HANGS))
    with Store.open(folder, write=False) as store:
        tried = [count for (count,) in store.connection.execute("SELECT tried FROM occurrences")]
    assert sorted(tried) == [0, 0, 1]


@pytest.mark.parametrize("workers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_campaign_that_counts_tests_waits_for_the_time_limit(tmp_path, workers):
    summary, shown = session(tmp_path / "c", "hostile,timeout=2", workers=workers, patience=0.3)
    assert summary["hangs"] == {} and not any(snapshot.suspects for snapshot in shown)
    assert summary["tests"] == TESTS and summary["outcomes"]["timeout"] == len(HANGS)
    assert (summary["findings"], summary["occurrences"]) == (1, len(HANGS))
