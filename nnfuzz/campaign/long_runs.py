"""Runs of one backend that take long: they go on beside its slots, in workers of their own."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence, Set
from dataclasses import dataclass
from typing import Protocol

from nnfuzz.backend.outcome import Outcome, Stage
from nnfuzz.backend.runner import BackendRunner, RunnerError
from nnfuzz.campaign.pace import Pace, Waiting
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Run
from nnfuzz.sandbox.events import Event
from nnfuzz.sandbox.pool import Pool, Worker
from nnfuzz.sandbox.sandbox import Sandbox

SUSPECTS = max(1, min(3, (os.cpu_count() or 1) // 2))
"""Runs that look like hangs and go on: half of the cores, since a hang may compute. No more than
the repetitions of one hang, which then run side by side."""
DOUBTFUL = 4  # runs of one backend that go on aside before they look like hangs
Ran = list[Outcome] | RunnerError
"""The outcomes of a run, or the fault of nnfuzz or of the adapter."""


class Watcher(Protocol):
    """The test that has ordered a run, and is informed of its course."""

    def suspected(self, waiting: Waiting) -> str:
        """It looks like a hang. Its answer is still to come, however late. Returns the signature
        that it has if it is one.
        """
        ...

    def dropped(self) -> None:
        """It looks like a hang, and there is no answer to come in this session."""
        ...


@dataclass
class LongRunOrder:
    """A run that was asked for. suspect: whether it is taken to hang; pattern: its signature then,
    as far as somebody was asked.
    """

    run: Run
    answer: Pending[Ran]
    watcher: Watcher | None
    suspect: bool
    pattern: str = ""

    def suspected(self, waiting: Waiting) -> None:
        """Tells it once."""
        if not self.suspect and self.watcher:
            self.pattern = self.watcher.suspected(waiting)
        self.suspect = True


class LongRun(Worker[LongRunOrder, Ran]):
    """One that goes on, in the worker of a runner of its own. backend: its label."""

    def __init__(self, backend: str, runner: BackendRunner, order: LongRunOrder) -> None:
        self.backend, self.runner, self.order = backend, runner, order

    @property
    def sandboxes(self) -> Sequence[Sandbox]:
        return (self.runner.sandbox,)

    def begin(self, order: LongRunOrder) -> None:
        order.run.submit(self.runner)

    def feed(self, event: Event) -> Ran | None:
        return outcomes_or_fault(self.runner, event)

    @property
    def suspect(self) -> bool:
        """Whether it is taken to hang."""
        return self.order is not None and self.order.suspect

    @property
    def seconds(self) -> float:
        """The seconds since its present level began."""
        return self.runner.sandbox.waited

    def suspected(self) -> None:
        """Tells that it looks like a hang."""
        assert self.order is not None
        self.order.suspected(self.waiting())

    def waiting(self) -> Waiting:
        """The wait for this run. The worker's own report is not trusted: only levels of the run
        count.
        """
        assert self.order is not None
        run = self.order.run
        reported, _, level = self.runner.sandbox.stage.partition(" ")
        # A long pipeline is cut off.
        level = next((own for own in run.levels if level and own.startswith(level)), run.levels[0])
        stage = next((stage for stage in Stage if stage == reported), Stage.IMPORT)
        return Waiting(run.case.id, self.backend, level, stage, self.seconds)


class LongRuns(Pool[LongRun, LongRunOrder, Ran]):
    """Runs that take much longer than usual go on here (nnfuzz.campaign.pace).

    A run that then looks like a hang is a suspect, and its test is informed. SUSPECTS of these go
    on up to the time limit, which alone decides their outcome; others are stopped and begin anew
    when it is their turn. The repetitions of a hang run at the same time. queue: those that wait
    for their turn. known: the signatures of confirmed hangs, if the clock ends the campaign: then a
    suspect has until `Pace.hopeless` to answer, and no more time if its signature is among them.
    None: the time limit alone decides.
    """

    known: Set[str] | None = None

    def __init__(
        self,
        pace: Pace,
        start: Callable[[LongRunOrder], LongRun],
        end: Callable[[LongRun, LongRunOrder, Ran], None],
        backlog: float,
    ) -> None:
        """start: has a new worker carry out an order. end: called when one has ended. backlog: how
        many suspects may wait for their turn; of more of them none is kept.
        """
        super().__init__()
        self._pace = pace
        self._start, self._end = start, end
        self._backlog = backlog

    def ended(self, worker: LongRun, order: LongRunOrder, result: Ran) -> None:
        self._end(worker, order, result)

    def submit(self, order: LongRunOrder) -> None:
        """Queues runs known to be slow; the repetitions of one hang before the next one."""
        if order.run.fresh:
            self.queue.appendleft(order)
        else:
            self.queue.append(order)

    def remove(self, run: LongRun, keep: bool = False) -> None:
        """Ends its worker, unless that is kept for another run."""
        self.workers.remove(run)
        if not keep:
            run.close()

    @property
    def room(self) -> bool:
        """Whether another run may go on here."""
        return len(self.workers) - self._suspected() < DOUBTFUL

    def dispatch(self, more: Callable[[], LongRunOrder | None] = lambda: None) -> None:
        """Reports runs that look like hangs, ends overdue ones, and starts queued ones."""
        for run in [*self.workers]:
            if not run.suspect and run.seconds > self._pace.suspicious:
                self._suspect(run)
            if run.suspect and run.seconds > self._allowed(run):
                usual = f"where others take {self._pace.tail:.2g} s"
                run.runner.sandbox.expire(f"no answer for {run.seconds:.0f} s, {usual}")
        while self.queue and (self.queue[0].run.fresh or self._suspected() < SUSPECTS):
            self.workers.append(self._start(self.queue.popleft()))

    def due(self) -> Iterator[float]:
        """Seconds until each of them looks like a hang."""
        doubtful = (run for run in self.workers if not run.suspect)
        return (self._pace.suspicious - run.seconds for run in doubtful)

    def waiting(self) -> list[Waiting]:
        """The suspects that are waited for, the longest first."""
        suspects = [run.waiting() for run in self.workers if run.suspect]
        return sorted(suspects, key=lambda waiting: -waiting.seconds)

    def undecided(self) -> bool:
        """Whether some run may still turn out not to hang."""
        return any(not run.suspect for run in self.workers)

    def suspect_all(self) -> None:
        """Takes all of them to hang until they answer, so that nobody waits for them."""
        for run in [*self.workers]:
            if not run.suspect:
                self._suspect(run)

    def give_up(self) -> None:
        """Stops all of them, which are then suspected to hang, and empties the queue."""
        for run in [*self.workers]:
            run.suspected()
            self.remove(run)
        self.queue.clear()

    def _suspect(self, run: LongRun) -> None:
        order = run.order
        assert order is not None
        run.suspected()
        if self._suspected() <= SUSPECTS or run.seconds > self._allowed(run):
            return
        self.remove(run)
        if len(self.queue) < self._backlog:
            self.queue.append(order)
        elif order.watcher:
            order.watcher.dropped()

    def _allowed(self, run: LongRun) -> float:
        """Seconds that a suspect has to answer, beside the time limit."""
        if self.known is None:
            return math.inf
        known = run.order is not None and run.order.pattern in self.known
        return self._pace.suspicious if known else self._pace.hopeless

    def _suspected(self) -> int:
        return sum(run.suspect for run in self.workers)


def outcomes_or_fault(runner: BackendRunner, event: Event) -> Ran | None:
    """The outcomes that an event completes, see BackendRunner.feed."""
    try:
        return runner.feed(event)
    except RunnerError as error:
        return error
