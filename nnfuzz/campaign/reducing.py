"""Reduces findings while the campaign runs: one at a time, within a share of its time."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.recorder import Recorder
from nnfuzz.campaign.rows import FindingRow, ReductionRow
from nnfuzz.execute.events import Death, DeathKind, Event, Fault, Limits, Progress, Reply, described
from nnfuzz.execute.forkserver import ForkServer
from nnfuzz.execute.sandbox import Sandbox
from nnfuzz.reading import read_fields
from nnfuzz.report.finding_folder import REDUCED

BACKLOG = 10
"""Findings that, waiting, double the share: more than a person reads through in a sitting."""
ASKS = 2
"""Suspects that are asked for each finding that is reduced, while both wait: a few runs each."""
HARD_SECONDS = 600.0
"""After the time that a reduction is given, or a second for each candidate: for the start of
workers, and for localisation, which runs a slow compiler up to a hundred times.
"""
_RESULT = tuple(f.name for f in fields(ReductionRow) if f.name != "signature")


class Reducer:
    """Hands findings to one worker (nnfuzz.campaign.reduction) and records what comes of them.

    `dispatch` starts the next reduction, the loop waits on `sandboxes()` and passes events to
    `feed`. Neither blocks. note: for people. spent: seconds, over all reductions that were begun
    beside the campaign; afterwards: over those without a limit, once it was over.
    """

    def __init__(
        self, config: CampaignConfig, recorder: Recorder, note: Callable[[str], None]
    ) -> None:
        self.config = config
        self.recorder = recorder
        self.spent = self.after_campaign = 0.0
        self._turn = 0
        self._limited = True
        self._note = note
        self._server: ForkServer | None = None
        self._sandbox: Sandbox | None = None
        self._row: FindingRow | None = None
        self._known: list[str] = []
        self._asked = False
        self._began = 0.0
        self._free = 0.0

    @property
    def busy(self) -> bool:
        return self._row is not None

    def waiting(self) -> int:
        """How many findings are not reduced yet."""
        return len(self.recorder.unreduced()) if self.config.reduce else 0

    def dispatch(self, allowed: float, workers: int = 1) -> None:
        """Starts the next reduction, unless one is running or `allowed` seconds are spent.

        The first one, which waits for workers to start, is not counted.
        workers: candidates at a time.
        """
        if self.busy or not self.config.reduce or self.spent - self._free > allowed:
            return
        row = self._next()
        if row is None:
            return
        self._row, self._began = row, time.monotonic()
        self._limited = math.isfinite(allowed)
        self._asked = row.signature in self.recorder.suspects
        self._turn += 1
        self._known = [reduction.refined for reduction in self.recorder.reductions.values()]
        settings, store = self.config.reducer, self.recorder.store
        habits = store.habits(row.backend)
        job = {
            "do": "ask" if self._asked else "reduce",
            "folder": str((store.folder / row.folder).resolve()),
            "workers": workers,
            "budget": settings.budget,
            "seconds": settings.seconds if self.config.timed else None,
            "known": self.known(row),
            "habits": None if habits is None else [habit.to_json() for habit in habits],
        }
        self._worker().submit(job, reply=_read)

    def share(self) -> float:
        """Of the campaign's time that reductions may take: the more of it, the more is waiting."""
        settings = self.config.reducer
        return min(settings.most, settings.share * (1 + self.waiting() / BACKLOG))

    def known(self, row: FindingRow) -> list[str]:
        """The folders of what is reduced to the end, of the same compiler and kind, duplicates of
        another operator included; the likeliest first.
        """
        rows, folder = self.recorder.rows, self.recorder.store.folder
        suspected = self.recorder.suspects.get(row.signature, "")
        alike = {
            done.refined: rows[signature].folder
            for signature, done in self.recorder.reductions.items()
            if done.refined
            and not done.explained
            and signature in rows
            and (rows[signature].compiler, rows[signature].kind) == (row.compiler, row.kind)
        }
        names = sorted(alike, key=lambda refined: refined != suspected)
        return [str((folder / alike[name] / REDUCED).resolve()) for name in names]

    def _next(self) -> FindingRow | None:
        """One of each cluster, the most frequent one first. Suspects, which cost a few runs each,
        take turns with what looks like nothing known.
        """
        recorder = self.recorder
        waiting = [row for row in recorder.unreduced() if recorder.settled(row)]
        turns = recorder.clusters().turns(waiting, recorder.reductions)
        asks = bool(self._turn % (1 + ASKS))
        wanted = lambda row: (row.signature in recorder.suspects) != asks  # noqa: E731
        return min(turns, key=wanted, default=None)

    def sandboxes(self) -> Iterator[Sandbox]:
        if self._sandbox is not None and self.busy:
            yield self._sandbox

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Whether the event was this worker's."""
        if sandbox is not self._sandbox or self._row is None:
            return False
        if isinstance(event, Progress):
            return True
        row, self._row = self._row, None
        seconds = time.monotonic() - self._began
        if self._limited:
            self.spent += seconds
        else:
            self.after_campaign += seconds
        if not self._free:
            self._free = seconds
        if self._asked and isinstance(event, Reply) and event.value == _NOTHING:
            self.recorder.unexplained(row.signature, self._known)
        else:
            self._keep(row, self._result(row, event))
        return True

    def _result(self, row: FindingRow, event: Reply | Fault | Death) -> ReductionRow:
        if isinstance(event, Reply):
            return replace(event.value, signature=row.signature)
        reason = described(event)
        if isinstance(event, Death) and event.kind is DeathKind.TIMEOUT:
            reason = f"took longer than {self._hard():.0f} s"
        return ReductionRow(row.signature, reason=reason)

    def _keep(self, row: FindingRow, result: ReductionRow) -> None:
        whole = self.recorder.reduced(result, row.test)
        if whole is None:
            return  # a lower index has taken the folder meanwhile: it is waiting again
        if row.signature not in self.recorder.rows:
            self._note(f"known, as it turns out: {row.title} [{row.signature}]")
            return
        if result.reason:
            self._note(f"not reduced: {row.title} [{row.signature}]: {result.reason}")
            return
        text = f"reduced {result.before} -> {result.after} nodes, {result.pattern}: {result.title}"
        if whole.signature != row.signature:
            text += f"; the same as {whole.signature}"
        elif whole.duplicates:
            text += f"; it stands for {len(whole.duplicates)} other signatures"
        self._note(f"{text} [{row.signature}]")

    def close(self) -> None:
        """Ends the worker; a reduction that is running is dropped, and waits for another session.

        Idempotent.
        """
        self._row = None
        if self._sandbox is not None and self._server is not None:
            self._sandbox.close()
            self._server.close()

    def _worker(self) -> Sandbox:
        settings = self.config.reducer
        if self._sandbox is None:
            self._server = ForkServer(settings.preload)
            self._sandbox = Sandbox(
                settings.service,
                {"plugins": list(self.config.plugins), "folder": os.getcwd()},
                Limits(seconds=self._hard(), memory_bytes=0, jobs_per_process=1000),
                name="reducer",
                server=self._server,
            )
        return self._sandbox

    def _hard(self) -> float:
        settings = self.config.reducer
        return HARD_SECONDS + (settings.seconds if self.config.timed else settings.budget)


_NOTHING = ReductionRow("")


def _read(header: dict[str, Any], blobs: dict[str, Any]) -> ReductionRow:
    """What came of a reduction; of which finding is for the asker to say."""
    found = replace(_NOTHING, **read_fields(ReductionRow, header, *_RESULT))
    found.graph.checked()
    return found
