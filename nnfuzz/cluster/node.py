"""A node of a cluster: a campaign on the node's own disk, over indexes that a coordinator lends."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.reading import Json
from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.records.config import CampaignConfig, processes
from nnfuzz.records.lending import Lent, NodeReport
from nnfuzz.records.observer import CampaignSnapshot
from nnfuzz.records.rows import FindingRow
from nnfuzz.store.database import StoreError, hold
from nnfuzz.store.schema import FILE, LOCK
from nnfuzz.store.store import Store

STARTING = CampaignSnapshot("starting", 0.0, None, 0, 0, 0.0, {}, 0, 0, 0, 0, 0.0)


@dataclass(frozen=True)
class NodeStatus:
    """The state of a node as it is displayed. place: its name in the cluster. notes: messages since
    its last report.
    """

    host: str
    place: str
    campaign: CampaignSnapshot = STARTING
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        campaign = self.campaign
        return f"{self.host}: {campaign.phase}, {campaign.tests} tests, {campaign.rate:.1f}/s"


class Link:
    """The observer of a node's campaign, and its connection to the coordinator.

    call: sends a report and a status to the coordinator. Raises: OSError if that fails for now.
    """

    def __init__(
        self, call: Callable[[NodeReport, NodeStatus], Lent], host: str, place: str
    ) -> None:
        self._call = call
        self._status = NodeStatus(host, place)
        self._lock = threading.Lock()  # reports come from a thread of their own
        self._found: list[tuple[str, str]] = []
        self._notes: list[str] = []

    def sync(self, report: NodeReport) -> Lent:
        """Sends a report with all new findings and notes. Raises: OSError; they are then kept."""
        with self._lock:
            found, notes = tuple(self._found), tuple(self._notes)
        lent = self._call(replace(report, found=found), replace(self._status, notes=notes))
        with self._lock:
            del self._found[: len(found)], self._notes[: len(notes)]
        return lent

    def update(self, snapshot: CampaignSnapshot) -> None:
        self._status = replace(self._status, campaign=snapshot)

    def finding(self, row: FindingRow) -> None:
        with self._lock:
            self._found.append((row.signature, row.title))

    def note(self, text: str) -> None:
        with self._lock:
            self._notes.append(text)


def run_node(settings: Mapping[str, Json], folder: Path, link: Link, cores: int) -> int:
    """Runs or resumes the campaign in a node's folder until the coordinator ends it; returns the
    number of its tests.

    settings: a CampaignConfig as JSON, with `workers` 0 for as many processes as suit the cores;
    segments go to its `share`. folder: of this node alone, below a folder that all nodes of this
    machine and campaign share. It is removed once everything in it is published. The folders of
    lost nodes are removed as well, since other nodes run their ranges.

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
            Store.create(own, as_json(config)).close()
        with Store.open(own) as store:
            cache = SupportCache(folder / "cache")
            result = run_campaign(store, config, registry, link, cache, coordinator=link)
        shutil.rmtree(folder)
    tidy(folder.parent)
    with contextlib.suppress(OSError):  # other nodes still use it
        folder.parent.rmdir()
    return int(result.summary.tests)


def tidy(folders: Path) -> None:
    """Removes the folders of lost nodes: those that no process has locked."""
    for left in folders.iterdir():
        with contextlib.suppress(StoreError), hold(left):
            shutil.rmtree(left)


def _held(folder: Path) -> IO[str]:
    """Makes and locks the folder of a node. Raises: StoreError if another process has locked it."""
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
        lock.close()  # another process has just removed it
