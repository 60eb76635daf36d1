"""A node of a cluster: a campaign on its own disk, of the indexes that a coordinator lends it."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from nnfuzz.campaign.config import CampaignConfig, processes
from nnfuzz.campaign.lending import Lent, Report
from nnfuzz.campaign.observer import Snapshot
from nnfuzz.campaign.rows import FindingRow
from nnfuzz.campaign.session import run_campaign
from nnfuzz.campaign.store import Store
from nnfuzz.campaign.support_cache import SupportCache
from nnfuzz.campaign.tables.database import StoreError, hold
from nnfuzz.campaign.tables.schema import FILE, LOCK
from nnfuzz.execute.registry import BackendRegistry


@dataclass(frozen=True)
class Shown:
    """What people see of a node. place: which one it is, for whoever has started it. notes: what it
    has to say since its last report.
    """

    host: str
    place: str
    phase: str = "starting"
    tests: int = 0
    rate: float = 0.0
    outcomes: Mapping[str, int] = field(default_factory=dict)
    occurrences: int = 0
    faults: int = 0
    sut_share: float = 0.0
    refused: int = 0
    avoided: int = 0
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.host}: {self.phase}, {self.tests} tests, {self.rate:.1f}/s"


class Link:
    """Between a node's campaign, which it watches, and its coordinator.

    call: takes a report with what is to be shown. Raises: OSError, if that cannot be said now.
    """

    def __init__(self, call: Callable[[Report, Shown], Lent], host: str, place: str) -> None:
        self._call = call
        self._shown = Shown(host, place)
        self._lock = threading.Lock()  # reports come from a thread of their own
        self._found: list[tuple[str, str]] = []
        self._notes: list[str] = []

    def sync(self, report: Report) -> Lent:
        """Raises: OSError."""
        with self._lock:
            found, notes = tuple(self._found), tuple(self._notes)
        lent = self._call(replace(report, found=found), replace(self._shown, notes=notes))
        with self._lock:
            del self._found[: len(found)], self._notes[: len(notes)]
        return lent

    def update(self, s: Snapshot) -> None:
        self._shown = Shown(
            self._shown.host,
            self._shown.place,
            s.phase,
            s.tests,
            s.rate,
            dict(s.outcomes),
            s.occurrences,
            s.faults,
            s.sut_share,
            s.refused,
            s.avoided,
        )

    def finding(self, row: FindingRow) -> None:
        with self._lock:
            self._found.append((row.signature, row.title))

    def note(self, text: str) -> None:
        with self._lock:
            self._notes.append(text)


def run_node(settings: Mapping[str, Any], folder: Path, link: Link, cores: int) -> int:
    """Runs the campaign of a node until the coordinator says that it is over, and goes on with one
    that has died in the same folder; returns how many tests it has.

    settings: a CampaignConfig as JSON, with `workers` 0 for as many processes as suit the cores.
    Its `share` is where segments go. folder: in one of the campaign's own, in which each of the
    machine's nodes has another one. It is removed once all of it is published, and so is what nodes
    have left there that are gone: others run their ranges.

    Raises: OSError if the coordinator does not answer, and what run_campaign raises.
    """
    if not settings["workers"]:
        settings = {**settings, **processes(len(settings["backends"]), cores)}
    config = CampaignConfig.from_json(settings)
    registry = BackendRegistry.discover(config.plugins)
    with _held(folder):
        tidy(folder.parent)
        own = folder / "campaign"
        if not (own / FILE).exists():  # a kill may have left a draft
            shutil.rmtree(own, ignore_errors=True)
            Store.create(own, config.to_json()).close()
        with Store.open(own) as store:
            cache = SupportCache(folder / "cache")
            result = run_campaign(store, config, registry, link, cache, coordinator=link)
        shutil.rmtree(folder)
    tidy(folder.parent)
    with contextlib.suppress(OSError):  # others are at work
        folder.parent.rmdir()
    return int(result.summary["tests"])


def tidy(folders: Path) -> None:
    """Removes the folders of nodes that are gone: those that no process holds."""
    for left in folders.iterdir():
        with contextlib.suppress(StoreError), hold(left):
            shutil.rmtree(left)


def _held(folder: Path) -> IO[str]:
    """Makes the folder of a node and holds it. Raises: StoreError if another process does."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            lock = hold(folder)
        except StoreError:
            if folder.exists():
                raise
            continue
        if (folder / LOCK).exists():
            return lock
        lock.close()  # somebody has just removed it
