"""Reduces findings in processes of their own.

While the campaign runs, one finding is reduced at a time, within a share of the campaign's time.
After its last test, as many are reduced at a time as there are cores.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.findings.folder import REDUCED
from nnfuzz.findings.reducer_job import ReduceFinding
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.sandbox.events import (
    Death,
    DeathKind,
    Limits,
    Reply,
    Trouble,
    event_line,
)
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.pool import Ended, JobWorker, Pool
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.store.recorder import Recorder

BACKLOG = 10
"""Number of waiting findings that doubles the share: more than a person reads in one sitting."""
SUSPECTS_PER_REDUCTION, SUSPECTS_AFTERWARDS = 2, 4
"""Suspected duplicates that are checked per finding that is reduced, while both wait; the second
number holds after the last test. A check takes a few runs, a reduction many.
"""
HARD_SECONDS = 600.0
"""Seconds beyond the time of a reduction (or one second per candidate) after which it is killed.
They cover the start of workers and localisation, which runs a slow compiler up to 100 times.
"""
RESTING_SECONDS = 60.0
"""A reduction that computes nothing for so long, plus two time limits of a backend, is stuck."""


@dataclass(frozen=True)
class Order:
    """A reduction under way.

    known: the refined signatures that existed when it began. limited: whether its time counts
    against the share of reductions, as it does until the campaign's last test.
    """

    job: ReduceFinding
    row: FindingRow
    known: tuple[str, ...]
    limited: bool


class Reducer(Pool[JobWorker[Order], Order, Ended]):
    """Hands findings to workers (nnfuzz.findings.reducer_service) and records their answers.

    spent: seconds of all reductions that were begun while the campaign ran. after_campaign: seconds
    of those that were begun later.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        note: Callable[[str], None],
        slowest: float = 60.0,
    ) -> None:
        """note: prints a line for the user. slowest: the longest time limit of a backend, in
        seconds.
        """
        super().__init__()
        self.config = config
        self.recorder = recorder
        self._still = RESTING_SECONDS + 2 * slowest
        self.spent = self.after_campaign = 0.0
        self._finished = 0
        self._turn = 0
        self._note = note
        self._server: ForkServer | None = None
        self._free = 0.0
        self._owed_once: set[str] = set()
        """Signatures whose owed reduction (see `owed`) has ended, well or not."""

    def waiting(self) -> int:
        """The number of findings that are not reduced yet."""
        return len(self.recorder.unreduced()) if self.config.reduce else 0

    def missing(self, workers: int) -> float:
        """Estimated seconds for all waiting findings, from the mean of the finished reductions."""
        if not self._finished:
            mean = self.config.reducer.seconds
        else:
            mean = (self.spent + self.after_campaign) / self._finished
        return self.recorder.open() * mean / workers if self.config.reduce else 0.0

    def start_next(self, allowed: float, workers: int = 1) -> None:
        """Starts the next reductions, unless `allowed` seconds are spent.

        The first reduction does not count as spent, since workers start during it. workers:
        reductions at a time.
        """
        if not self.config.reduce or self.spent - self._free > allowed:
            return
        limited = math.isfinite(allowed)
        while self._under_way() < workers and (row := self._next(limited)):
            self.begin(self._idle(), self._order(row, limited))

    def finish(self, workers: int, wait: Callable[[], None], over: Callable[[], bool]) -> None:
        """Reduces all waiting findings. wait: processes events; over: whether to stop early."""
        while (self.waiting() or self.owed()) and not over():
            self.start_next(math.inf, workers)
            wait()

    def _order(self, row: FindingRow, limited: bool) -> Order:
        recorder = self.recorder
        known = tuple(reduction.refined for reduction in recorder.reductions.values())
        recorder.under_reduction.add(row.signature)
        self._turn += 1
        settings, habits = self.config.reducer, recorder.store.habits(row.backend)
        job = ReduceFinding(
            row.signature,
            str((recorder.store.folder / row.folder).resolve()),
            settings.budget,
            settings.seconds if self.config.timed else None,
            () if self._is_explained(row.signature) else tuple(self.known(row)),
            None if habits is None else tuple(habits),
            only_known=row.signature in recorder.suspects,
        )
        return Order(job, row, known, limited)

    def owed(self) -> FindingRow | None:
        """Returns a finding that must still be reduced, though a duplicate explains it already.

        Of duplicates, the one with the smallest model and then the lowest place represents all. If
        a duplicate was reduced first, the representative was only checked against it.
        """
        reductions, rows = self.recorder.reductions, self.recorder.rows
        for row in self.recorder.findings() if self.config.reduce else ():
            done = [s for s in (row.signature, *row.grouping.duplicates) if s in reductions]
            first = min(done, key=lambda s: (reductions[s].after, rows[s].place), default="")
            if self._is_explained(first) and first not in self._owed_once:
                return rows[first]
        return None

    def _is_explained(self, signature: str) -> bool:
        done = self.recorder.reductions.get(signature)
        return done is not None and done.explained

    def share(self) -> float:
        """The share of time that reductions may take; it grows with the waiting findings."""
        settings = self.config.reducer
        return min(settings.most, settings.share * (1 + self.waiting() / BACKLOG))

    def known(self, row: FindingRow) -> list[str]:
        """Returns folders of reduced findings that may have the same cause, the likeliest first.

        They are of the same compiler and kind; those of mismatches are included, since an error
        may follow from a wrong result.
        """
        rows, folder = self.recorder.rows, self.recorder.store.folder
        suspected = self.recorder.suspects.get(row.signature, "")
        similar = {
            done.refined: rows[signature].folder
            for signature, done in self.recorder.reductions.items()
            if done.refined
            and not done.explained
            and signature in rows
            and rows[signature].compiler == row.compiler
            and rows[signature].kind in (row.kind, OutcomeKind.MISMATCH)
        }
        names = sorted(similar, key=lambda refined: refined != suspected)
        return [str((folder / similar[name] / REDUCED).resolve()) for name in names]

    def _next(self, limited: bool) -> FindingRow | None:
        """Returns the next finding to reduce: one of each cluster, the most frequent cluster first.

        Suspected duplicates, which cost a few runs each, take turns with other findings.
        """
        recorder, begun = self.recorder, self.recorder.under_reduction
        rows = [row for row in recorder.unreduced() if row.signature not in begun]
        waiting = [row for row in rows if recorder.settled(row)]
        clusters = recorder.clusters()
        turns = clusters.turns(waiting, {*recorder.reductions, *begun})
        per_reduction = SUSPECTS_PER_REDUCTION if limited else SUSPECTS_AFTERWARDS
        suspects_turn = bool(self._turn % (1 + per_reduction))
        later = lambda row: (row.signature in recorder.suspects) != suspects_turn  # noqa: E731
        row = min(turns, key=later, default=None)
        if row is None and not limited and (owed := self.owed()):
            return None if owed.signature in begun else owed
        return row

    def ended(self, worker: JobWorker[Order], order: Order, result: Ended) -> None:
        self.recorder.under_reduction.discard(order.row.signature)
        seconds = time.monotonic() - worker.began
        if order.limited:
            self.spent += seconds
        else:
            self.after_campaign += seconds
        self._finished += 1
        if not self._free:
            self._free = seconds
        if isinstance(result, Reply) and result.value is None:
            self.recorder.unexplained(order.row.signature, order.known)
        else:
            self._keep(order.row, self._result(order.row, result))

    def _result(self, row: FindingRow, event: Reply[ReductionRow] | Trouble) -> ReductionRow:
        if isinstance(event, Reply):
            return event.value
        reason = event_line(event)
        if isinstance(event, Death) and event.kind is DeathKind.TIMEOUT:
            reason = f"took longer than {self._hard():.0f} s"
        return ReductionRow(row.signature, reason=reason)

    def _keep(self, row: FindingRow, result: ReductionRow) -> None:
        if self._is_explained(row.signature):
            self._owed_once.add(row.signature)
            before = self.recorder.reductions[row.signature]
            if result.reason:
                return
            keys = tuple(sorted({*before.keys, *result.keys}))
            result = replace(result, refined=before.refined, keys=keys, explained=False)
        whole = self.recorder.reduced(result, row.test)
        if whole is None:
            return  # a test of a lower index has replaced the folder: it waits for reduction again
        if row.signature not in self.recorder.rows:
            self._note(f"known, as it turns out: {row.title} [{row.signature}]")
            return
        if result.reason:
            self._note(f"not reduced: {row.title} [{row.signature}]: {result.reason}")
            return
        text = f"reduced {result.before} -> {result.after} nodes, {result.pattern}: {result.title}"
        if whole.signature != row.signature:
            text += f"; the same as {whole.signature}"
        elif others := whole.grouping.duplicates:
            text += f"; it stands for {len(others)} other signatures"
        self._note(f"{text} [{row.signature}]")

    def close(self) -> None:
        """Ends the workers. Reductions under way are dropped; a later session repeats them.

        Idempotent.
        """
        self.recorder.under_reduction.clear()
        super().close()
        self.workers.clear()
        if self._server is not None:
            self._server.close()

    def _under_way(self) -> int:
        return sum(worker.order is not None for worker in self.workers)

    def _idle(self) -> JobWorker[Order]:
        """A worker without an order, a new one if there is none."""
        for worker in self.workers:
            if worker.order is None:
                return worker
        settings = self.config.reducer
        if self._server is None:
            self._server = ForkServer(settings.preload, name="reducers")
        arguments = {"plugins": list(self.config.plugins), "folder": os.getcwd()}
        limits = Limits(self._hard(), 0, jobs_per_process=1000, still_seconds=self._still)
        name = f"reducer {len(self.workers) + 1}"
        sandbox = Sandbox(settings.service, arguments, limits, (), name, self._server)
        self.workers.append(JobWorker(sandbox))
        return self.workers[-1]

    def _hard(self) -> float:
        settings = self.config.reducer
        return HARD_SECONDS + (settings.seconds if self.config.timed else settings.budget)
