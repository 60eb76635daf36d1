"""The order in which the findings of a campaign are reduced, and the record of the results.

While the campaign runs, one finding is reduced at a time, within a share of the campaign's time.
After its last test, every lane reduces.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.runner import CompilerServers
from nnfuzz.campaign.lanes import Lanes
from nnfuzz.findings.folder import REDUCED
from nnfuzz.findings.reducer_service import ReduceFinding
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.sandbox.events import Reply, event_line
from nnfuzz.sandbox.sandbox import Ended
from nnfuzz.store.evidence import Evidence
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.store.summary import SUMMARY, read_summary, with_findings, write_summary
from nnfuzz.triage.signature import Failure

BACKLOG = 10
"""Number of waiting findings that doubles the share: more than a person reads in one sitting."""
SUSPECTS_PER_REDUCTION, SUSPECTS_AFTERWARDS = 2, 4
"""Suspected duplicates that are checked per finding that is reduced, while both wait; the second
number holds after the last test. A check takes a few runs, a reduction many.
"""

AFTERWARDS_SECONDS = 600.0
"""The time for one finding, when nothing else is waiting for the machine."""
_TICK_SECONDS = 0.25


@dataclass(frozen=True)
class Reduction:
    """A reduction under way.

    known: the causes that were known when it began. limited: whether its time counts
    against the share of reductions, as it does until the campaign's last test.
    """

    job: ReduceFinding
    row: FindingRow
    known: tuple[str, ...]
    limited: bool


class Reducer:
    """Chooses the finding that is reduced next, and records the results. Lanes do the reductions
    (nnfuzz.findings.reducer_service).

    spent: seconds of all reductions that were begun while the campaign ran, but for the first one,
    during which workers start.
    """

    def __init__(
        self, config: CampaignConfig, recorder: Recorder, note: Callable[[str], None]
    ) -> None:
        """note: prints a line for the user."""
        self.config = config
        self.recorder = recorder
        self.spent = 0.0
        self._turn = 0
        self._note = note
        self._first = True
        self._under_way: dict[str, Reduction] = {}
        self._owed_once: set[str] = set()
        """Signatures whose owed reduction (see `owed`) has ended, well or not."""

    def waiting(self) -> int:
        """The number of findings that are not reduced yet."""
        return len(self.recorder.unreduced()) if self.config.reduce else 0

    def next(self, allowed: float) -> ReduceFinding | None:
        """The next reduction; None if there is none, or if `allowed` seconds are spent.

        allowed: infinite after the last test. Before that, one finding is reduced at a time.
        """
        limited = math.isfinite(allowed)
        if not self.config.reduce or self.spent >= allowed:
            return None
        if limited and self._under_way:
            return None
        row = self._next(limited)
        if row is None:
            return None
        self._under_way[row.signature] = self._reduction(row, limited)
        return self._under_way[row.signature].job

    @property
    def left(self) -> bool:
        """Whether a finding is being reduced or has to be."""
        return bool(self._under_way or self.waiting() or self.owed())

    def _reduction(self, row: FindingRow, limited: bool) -> Reduction:
        recorder = self.recorder
        known = tuple(reduction.cause for reduction in recorder.reductions.values())
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
        return Reduction(job, row, known, limited)

    def owed(self) -> FindingRow | None:
        """Returns a finding that must still be reduced, though a duplicate explains it already.

        Of duplicates, the one with the smallest model and then the lowest index represents all. If
        a duplicate was reduced first, the representative was only checked against it.
        """
        reductions, rows = self.recorder.reductions, self.recorder.rows
        for row in self.recorder.findings() if self.config.reduce else ():
            done = [s for s in (row.signature, *row.duplicates) if s in reductions]
            first = min(done, key=lambda s: (reductions[s].after, rows[s].index), default="")
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
            done.cause: rows[signature].folder
            for signature, done in self.recorder.reductions.items()
            if done.cause
            and not done.explained
            and signature in rows
            and rows[signature].compiler == row.compiler
            and rows[signature].kind in (row.kind, OutcomeKind.MISMATCH)
        }
        names = sorted(similar, key=lambda cause: cause != suspected)
        return [str((folder / similar[name] / REDUCED).resolve()) for name in names]

    def _next(self, limited: bool) -> FindingRow | None:
        """Returns the next finding to reduce: one of each suspicion, the most frequent first.

        Suspects of a known cause, which cost a few runs each, take turns with other findings.
        """
        recorder, begun = self.recorder, self.recorder.under_reduction
        rows = [row for row in recorder.unreduced() if row.signature not in begun]
        waiting = [row for row in rows if recorder.settled(row)]
        turns = recorder.suspicions().turns(waiting, {*recorder.reductions, *begun})
        per_reduction = SUSPECTS_PER_REDUCTION if limited else SUSPECTS_AFTERWARDS
        suspects_turn = bool(self._turn % (1 + per_reduction))
        later = lambda row: (row.signature in recorder.suspects) != suspects_turn  # noqa: E731
        row = min(turns, key=later, default=None)
        if row is None and not limited and (owed := self.owed()):
            return None if owed.signature in begun else owed
        return row

    def ended(self, job: ReduceFinding, result: Ended, seconds: float) -> None:
        """Takes the end of a reduction. seconds: that it took."""
        reduction = self._under_way.pop(job.signature)
        self.recorder.under_reduction.discard(job.signature)
        if reduction.limited and not self._first:
            self.spent += seconds
        self._first = False
        if not isinstance(result, Reply):
            self._keep(reduction.row, ReductionRow(job.signature, reason=event_line(result)))
        elif result.value is None:
            self.recorder.unexplained(job.signature, reduction.known)
        else:
            self._keep(reduction.row, result.value)

    def _keep(self, row: FindingRow, result: ReductionRow) -> None:
        if self._is_explained(row.signature):
            self._owed_once.add(row.signature)
            before = self.recorder.reductions[row.signature]
            if result.reason:
                return
            if {*result.graph.operators} == {*before.graph.operators}:  # else there are two bugs
                keys = tuple(sorted({*before.keys, *result.keys}))
                result = replace(result, cause=before.cause, keys=keys)
        whole = self.recorder.reduced(result, row.test)
        if whole is None:
            return  # a test of a lower index has replaced the folder: it waits for reduction again
        if row.signature not in self.recorder.rows:
            why = result.reason or "known, as it turns out"
            self._note(f"{why}: {row.title} [{row.signature}]")
            return
        if result.reason:
            self._note(f"not reduced: {row.title} [{row.signature}]: {result.reason}")
            return
        text = f"reduced {result.before} -> {result.after} nodes, {result.pattern}: {result.title}"
        if whole.signature != row.signature:
            text += f"; the same as {whole.signature}"
        elif others := whole.duplicates:
            text += f"; it stands for {len(others)} other signatures"
        self._note(f"{text} [{row.signature}]")

    def drop(self) -> None:
        """Forgets the reductions under way; a later session repeats them."""
        self.recorder.under_reduction.clear()
        self._under_way.clear()


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
    settings = replace(
        config.reducer, seconds=max(AFTERWARDS_SECONDS, config.reducer.seconds), budget=budget
    )
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
        write_summary(store.folder, with_findings(read_summary(store.folder), store))


def _writes_nothing(folder: Path, failure: Failure, evidence: Evidence) -> None:
    raise RuntimeError("no finding is new after a campaign")
