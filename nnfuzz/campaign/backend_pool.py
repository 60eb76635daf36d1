"""The workers of one backend: its slots, and the runs that take long beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from nnfuzz.backend.deviation import Deviation
from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry, BackendSpec
from nnfuzz.backend.runner import AdapterFault, BackendRunner, RunnerError, fork_server_of
from nnfuzz.campaign.long_runs import (
    LongRun,
    LongRunOrder,
    LongRuns,
    Ran,
    Watcher,
    outcomes_or_fault,
)
from nnfuzz.campaign.pace import Pace, Waiting
from nnfuzz.campaign.producer_pool import PATIENCE, PoolError
from nnfuzz.experiment.pending import Pending
from nnfuzz.experiment.result import Run
from nnfuzz.records.config import CampaignConfig
from nnfuzz.sandbox.events import Event
from nnfuzz.sandbox.forkserver import ForkServer
from nnfuzz.sandbox.pool import Pool, Worker
from nnfuzz.sandbox.sandbox import Sandbox
from nnfuzz.testcase.identity import Numbered, Probe, TestId
from nnfuzz.triage.survey import learn_habits, usual_seconds

MOST_AHEAD = 64  # tests of a slot: 1.5 s of two producers, for models of some MB at most


class BackendSlot(Worker[LongRunOrder, Ran]):
    """A place for one worker. fresh: a runner for runs that need a new process. active: the runner
    that carries out the order.
    """

    fresh: BackendRunner | None = None
    active: BackendRunner | None = None

    def __init__(self, new: Callable[..., BackendRunner]) -> None:
        self._new = new
        self.runner = new()

    @property
    def sandboxes(self) -> Sequence[Sandbox]:
        runners = dict.fromkeys((self.runner, self.active or self.runner))
        return [runner.sandbox for runner in runners]

    @property
    def waited(self) -> float:
        """Seconds for which the present level was waited for; 0 without an order."""
        return self.active.sandbox.waited if self.active else 0.0

    def begin(self, order: LongRunOrder) -> None:
        if order.run.fresh and self.fresh is None:
            self.fresh = self._new(fresh=True)
        self.active = self.fresh if order.run.fresh else self.runner
        assert self.active is not None
        order.run.submit(self.active)

    def feed(self, event: Event) -> Ran | None:
        return outcomes_or_fault(self.active, event) if self.active else None

    def close(self) -> None:
        self.runner.close()
        if self.fresh:
            self.fresh.close()


class BackendPool(Pool[BackendSlot, LongRunOrder, Ran]):
    """The worker slots of one backend, its queue, and the seconds spent in the compiler.

    A run that takes much longer than usual (nnfuzz.campaign.pace) goes on aside, in its worker, and
    its slot gets a new one; see nnfuzz.campaign.long_runs.
    """

    def __init__(
        self,
        spec: BackendSpec,
        registry: BackendRegistry,
        levels: Iterable[str],
        count: int,
        backlog: float = math.inf,
        server: ForkServer | None = None,
    ) -> None:
        """count: of slots. backlog: see LongRuns. server: is closed with the pool; None: a new one.

        Raises: RunnerError if the backend is not installed; OptionError for unknown levels.
        """
        self.spec = spec
        self.registry = registry
        backend = registry.get(spec.name)
        self.all_levels = backend.levels
        self.levels = tuple(levels) or backend.default_levels()
        self.seconds = 0.0
        self.cpu = self.compiler_cpu = self.probe_cpu = 0.0
        """CPU seconds of workers for tests, inside of the compiler, and of workers for probes."""
        self.habits: tuple[Deviation, ...] = ()
        """The compiler's habits: numbers that it computes otherwise everywhere, as far as is known.
        """
        self.hung = 0
        """The number of elementary models on which the compiler exceeded its time."""
        self._faults = 0
        self.works = False
        """Whether some model did well, of earlier sessions as well: from then on, a mistake of the
        adapter costs one test."""
        self._release = ""
        self.server = server or fork_server_of(backend, spec)
        super().__init__(BackendSlot(self._runner) for _ in range(count))
        self.pace = Pace(self.workers[0].runner.sandbox.limits.seconds)
        self.aside = LongRuns(self.pace, self._anew, self._ended_aside, backlog)
        self._spares: list[BackendRunner] = []
        """Runners with idle workers for the next long run; none before the first long run."""

    @property
    def name(self) -> str:
        return self.spec.label

    def levels_of(self, test: TestId, config: CampaignConfig) -> tuple[str, ...]:
        """The levels that a test runs at: a pipeline that is drawn for it takes the place of the
        most optimised one. A function of the settings and the test.
        """
        rng = config.drawing(test.index, self.spec.name) if isinstance(test, Numbered) else None
        drawn = self.workers[0].runner.draw_pipeline(rng) if rng else None
        return (*(self.levels[:-1] or self.levels), str(drawn)) if drawn else self.levels

    def versions(self) -> dict[str, str]:
        """Waits for the first worker. Raises: RunnerError if it cannot start."""
        versions = self.workers[0].runner.versions()
        self._release = self.workers[0].runner.release
        for slot in self.workers:
            slot.runner.release = self._release
        return versions

    def learn_habits(self, seconds: float = math.inf) -> tuple[Deviation, ...]:
        """Determines the habits on the first worker, which also gives the usual times of levels.

        seconds: after which no more is asked. Raises: RunnerError.
        """
        runner = self.workers[0].runner
        self.habits = learn_habits(runner, seconds)
        for level, usual in usual_seconds(runner, self.levels, seconds).items():
            self.pace.expect(max(usual, runner.elementary), level)
        self.hung, self.works = runner.hung, runner.works
        return self.habits

    def submit(
        self, run: Run, urgent: bool = False, watcher: Watcher | None = None
    ) -> Pending[Ran]:
        """Queues a run; urgent ones go first, and those known to be slow go aside."""
        order = LongRunOrder(run, Pending(), watcher, run.slow)
        if run.slow:
            self.aside.submit(order)
        else:
            (self.urgent if urgent else self.queue).append(order)
        return order.answer

    def dispatch(self, more: Callable[[], LongRunOrder | None] = lambda: None) -> None:
        """Hands work to idle workers, and moves long runs aside."""
        for slot in self.workers:
            if slot.waited > self.pace.unusual and self.aside.room:
                self._move_aside(slot)
        self.aside.dispatch()
        super().dispatch(more)

    def sandboxes(self) -> Iterator[Sandbox]:
        yield from super().sandboxes()
        yield from self.aside.sandboxes()

    def feed(self, sandbox: Sandbox, event: Event) -> bool:
        """Raises: PoolError."""
        return super().feed(sandbox, event) or self.aside.feed(sandbox, event)

    def ended(self, worker: BackendSlot, order: LongRunOrder, result: Ran) -> None:
        """Raises: PoolError."""
        runner, worker.active = worker.active, None
        assert runner is not None
        self._count_cpu(order, runner.sandbox, result)
        if order.run.fresh:
            runner.sandbox.start()  # the next one is ready when it is asked for
        self._count(result, order.run.case.id)
        self._end(order, result)

    def _ended_aside(self, long: LongRun, order: LongRunOrder, result: Ran) -> None:
        """Raises: PoolError."""
        self._count_cpu(order, long.runner.sandbox, result)
        self._give_back(long)
        self._count(result, order.run.case.id, beside=True)
        self._end(order, result)

    @property
    def busy(self) -> bool:
        return self.at_work or self.aside.busy

    @property
    def at_work(self) -> bool:
        """Whether there is more to wait for than the long runs."""
        return super().busy

    @property
    def due(self) -> float:
        """Seconds until some run takes longer than usual; infinite if none is under way."""
        left = [self.pace.unusual - slot.waited for slot in self.workers if slot.active]
        return min((*left, *self.aside.due()), default=math.inf)

    @property
    def ahead(self) -> int:
        """Tests that each slot gets through while a long run holds it up: with as many in the
        queue, producers need not wait for that.
        """
        return min(MOST_AHEAD, math.ceil(self.pace.meanwhile / len(self.levels)))

    def give_up(self) -> None:
        """Stops long runs, which are suspected to hang, and empties the queue."""
        for slot in self.workers:
            if slot.order and slot.active and slot.waited > self.pace.unusual:
                LongRun(self.name, slot.active, slot.order).suspected()
        self.aside.give_up()
        for queue in (self.queue, self.urgent):
            queue.clear()

    def close(self) -> None:
        super().close()
        for spare in self._spares:
            spare.close()
        self.aside.close()
        self.server.close()

    def _anew(self, order: LongRunOrder) -> LongRun:
        """Has a new worker carry out a run that is known to be slow."""
        long = LongRun(self.name, self._runner(), order)
        order.run.submit(long.runner)
        return long

    def _move_aside(self, slot: BackendSlot) -> None:
        assert slot.active is not None and slot.order is not None
        self.aside.workers.append(LongRun(self.name, slot.active, slot.order))
        if slot.active is slot.fresh:
            slot.fresh = None
        else:
            slot.runner = self._spares.pop() if self._spares else self._runner()
            if not self._spares:
                self._spares.append(self._runner())
        slot.active = slot.order = None

    def _give_back(self, long: LongRun) -> None:
        """Ends the worker of a long run that is over, unless the next one can make way for it."""
        lasting = long.runner.sandbox.limits.jobs_per_process > 1
        if lasting and len(self._spares) < len(self.workers):
            self.aside.remove(long, keep=True)
            self._spares.append(long.runner)
            long.runner.sandbox.start()  # anew if it died
        else:
            self.aside.remove(long)

    def _runner(self, fresh: bool = False) -> BackendRunner:
        """One with a worker that is about to start. fresh: with a new process for every job."""
        runner = BackendRunner(self.spec, self.registry, self.server)
        if fresh:
            runner.sandbox.limits = replace(runner.sandbox.limits, jobs_per_process=1)
        runner.release = self._release
        runner.sandbox.start()
        return runner

    def _end(self, order: LongRunOrder, result: Ran) -> None:
        for outcome in [] if isinstance(result, RunnerError) else result:
            if outcome.kind is OutcomeKind.TIMEOUT:
                seconds = sum(outcome.seconds.values())
                place = self.name, outcome.level, outcome.stage
                order.suspected(Waiting(order.run.case.id, *place, seconds))
        order.answer.complete(result)

    def _count_cpu(self, order: LongRunOrder, sandbox: Sandbox, result: Ran) -> None:
        if isinstance(order.run.case.id, Probe):
            self.probe_cpu += sandbox.take_cpu()
            return
        self.cpu += sandbox.take_cpu()
        if not isinstance(result, RunnerError):
            self.compiler_cpu += sum(outcome.cpu for outcome in result)

    def _count(self, result: Ran, test: TestId, beside: bool = False) -> None:
        """beside: whether no slot was busy with it."""
        if isinstance(result, RunnerError):
            self._faults += 1
            hopeless = isinstance(result, AdapterFault) and not self.works
            if hopeless or self._faults >= PATIENCE:
                raise PoolError(str(result), test)
            return
        self._faults = 0
        self.works = self.works or any(outcome.ok for outcome in result)
        for outcome in result:
            seconds = sum(outcome.seconds.values())
            self.seconds += 0.0 if beside else seconds
            if outcome.kind is not OutcomeKind.TIMEOUT:
                self.pace.add(seconds, outcome.level.partition("+")[0])
