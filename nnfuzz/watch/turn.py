"""One turn of a watch: a release of a compiler is checked against the ledger, and fuzzed."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.bugs.adding import Adder, AdditionKind
from nnfuzz.bugs.bisecting import ScriptBisection, with_origin
from nnfuzz.bugs.bug import Bug
from nnfuzz.bugs.checking import NEWS, Checker
from nnfuzz.bugs.environments import Interpreters
from nnfuzz.bugs.ledger import Ledger, Note
from nnfuzz.bugs.scripts import ScriptRun, run_script
from nnfuzz.bugs.turns import Turn
from nnfuzz.library.campaign import Campaign, Request
from nnfuzz.library.diversity import compare_folders
from nnfuzz.library.replaying import reduce_findings
from nnfuzz.records.config import CampaignConfig, ConfigError
from nnfuzz.records.observer import Observer
from nnfuzz.reduction.case import ReduceConfig
from nnfuzz.store.store import FILE, StoreError
from nnfuzz.store.summary import Summary, read_summary
from nnfuzz.watch.candidates import Candidate
from nnfuzz.watch.settings import SystemSettings, WatchSettings

MOST_EARLIER = 15
"""Releases in front of a bug's first one that are looked at: the search runs four of them."""
Observe = Callable[[CampaignConfig, Path], AbstractContextManager[Observer]]
"""Shows how far a campaign is."""


@dataclass(frozen=True)
class Surroundings:
    """What all turns share. log: takes a line for each event. stopped: whether it is to end."""

    settings: WatchSettings
    ledger: Ledger
    registry: BackendRegistry
    interpreters: Interpreters
    log: Note
    observe: Observe
    stopped: Callable[[], bool]
    today: Callable[[], date] = date.today


@dataclass(frozen=True)
class SystemTurn:
    """One turn of a system. name: of its table. number: of the turn; the campaign's seed."""

    around: Surroundings
    name: str
    settings: SystemSettings
    candidate: Candidate
    number: int

    @property
    def folder(self) -> Path:
        """Where the campaign is; a turn that was killed has left it there."""
        release = re.sub(r"[^\w.]+", "-", self.candidate.id)
        return self.around.settings.work / self.name / f"{self.number}-{release}"

    def check(self) -> bool:
        """Checks the system's bugs on the release, and moves their states; whether all were run.

        A bug whose script has been run in a release of the index is not run there again, so that a
        turn that was killed goes on where it was.
        """
        around, candidate = self.around, self.candidate
        bugs = around.ledger.bugs() if around.ledger.folder.is_dir() else {}
        known = candidate.release if candidate.id == candidate.release else None
        own = {n: b for n, b in bugs.items() if self._is_about(b) and known not in b.releases}
        checker = Checker(
            around.ledger,
            candidate.choose,
            around.log,
            around.today(),
            self._bisection() if self.settings.bisect else None,
        )
        for checked in checker.check_all(own):
            if checked.change in NEWS:
                around.log(checked.line)
            if around.stopped():
                return False
        return True

    def _is_about(self, bug: Bug) -> bool:
        """Whether a bug is of the system, and the candidate a release of its package."""
        if bug.system != self.settings.system:
            return False
        package = self.around.interpreters.package
        return package(bug) == package(replace(bug, package=""))

    def fuzz(self) -> Turn:
        """Runs a campaign, adds its bugs to the ledger, and removes its folder."""
        for old in set(self.folder.parent.glob("*")) - {self.folder}:  # of turns that broke off
            shutil.rmtree(old, ignore_errors=True)
        release = self.candidate.prepare()
        self._campaign(self.settings.at_release(release))
        new = self._add() if (self.folder / "findings").is_dir() else []
        for name in new if self.settings.bisect else ():
            self._trace(name)
        turn = replace(self._counted(), new=len(new))
        shutil.rmtree(self.folder, ignore_errors=True)
        return turn

    # -- the campaign -----------------------------------------------------------------------

    def _campaign(self, backend: str) -> None:
        """Runs the campaign of this turn, or goes on with one that was killed.

        Raises: what nnfuzz.library.campaign.Campaign does.
        """
        around = self.around
        for attempt in (self._resumed, lambda: self._created(backend)):
            campaign = attempt()
            if campaign is None:
                continue
            with campaign, around.observe(campaign.config, campaign.folder) as observer:
                result = campaign.run(observer, around.stopped)
            if result.summary.unreduced and not around.stopped():
                self._reduce()
            return

    def _resumed(self) -> Campaign | None:
        """A campaign that was killed; None if there is none that can go on."""
        if not (self.folder / FILE).is_file():
            shutil.rmtree(self.folder, ignore_errors=True)  # it holds nothing that was recorded
            return None
        try:
            return Campaign.resume(Request(out=self.folder), lambda plugins: None)
        except (ConfigError, StoreError) as error:
            self.around.log(f"{self.folder}: {error}")
            return None

    def _created(self, backend: str) -> Campaign | None:
        """A new campaign; None if one that has come to its end is there already."""
        if self.folder.exists():
            return None
        own = self.settings
        limits = {"tests_limit": own.tests or None, "time_limit": own.time or None}
        given = {name: value for name, value in limits.items() if value}
        book = self.around.ledger
        request = Request(
            backends=(backend,),
            plugins=self.around.settings.plugins,
            out=self.folder,
            known=book.folder if book.names() else None,
            settings={**self.around.settings.fuzz, "seed": self.number, **given},
            note=self.around.log,
        )
        return Campaign.create(request)

    def _reduce(self) -> None:
        defaults = ReduceConfig()
        workers = len(os.sched_getaffinity(0))
        around = self.around
        reduce_findings(
            self.folder, _allow_own, around.log, workers, defaults.budget, around.stopped
        )

    def _counted(self) -> Turn:
        """The figures of the campaign."""
        summary: Summary = read_summary(self.folder)
        (counted,) = compare_folders([self.folder]).counted
        passes = {(name, own) for name, found in counted.tally.passes.items() for own in found}
        return Turn(
            self.number,
            self.name,
            self.around.today().isoformat(),
            self.candidate.fuzzed(Bug(self.name, self.settings.system)).release,
            summary.tests,
            summary.findings,
            operators=len(counted.tally.operators),
            passes=len(passes),
        )

    # -- the ledger -------------------------------------------------------------------------

    def _add(self) -> list[str]:
        """Adds the campaign's bugs; returns the names of new ones that reproduce."""
        around, found = self.around, []
        with around.ledger.locked(around.log):
            adder = Adder(
                around.ledger,
                around.registry,
                around.today(),
                self._confirm,
                lambda folder: str,  # the campaign is this watch's own, and so are its plug-ins
            )
            for done in adder.add_all(self.folder):
                if done.kind is not AdditionKind.KNOWN:
                    told = f": {done.message}" if done.message else ""
                    around.log(f"{done.name}: {done.kind}{told}")
                if done.kind is AdditionKind.NEW:
                    found.append(done.name)
        return found

    def _confirm(self, script: Path, bug: Bug) -> ScriptRun:
        return run_script(script, self.candidate.fuzzed(bug).python, same_release=True)

    def _trace(self, name: str) -> None:
        """Looks up with which release a new bug came, and notes it."""
        around, book = self.around, self.around.ledger
        if around.stopped():
            return
        found = self._bisection().origin(name, book.bug(name), book.script(name), MOST_EARLIER)
        with book.locked(around.log):
            book.put(name, with_origin(book.bug(name), found, around.today()))

    def _bisection(self) -> ScriptBisection:
        there = self.around.interpreters
        return ScriptBisection(there.releases, there.of_release, self.around.log)


def _allow_own(plugins: object) -> None:
    """A watch's own campaigns have its own plug-ins."""
