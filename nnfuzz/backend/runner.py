"""Runs test cases on one backend: submit a model, get one outcome per level, also for deaths."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from nnfuzz.backend.complaint import CompilerError, ComplaintKind
from nnfuzz.backend.contract import Backend, files_of
from nnfuzz.backend.numeric import Deviation
from nnfuzz.backend.outcome import (
    MEMORY_LIMIT,
    AskVersions,
    HeldOutputs,
    ListPasses,
    Outcome,
    OutcomeKind,
    Passes,
    RunLevels,
    Stage,
    WriteCode,
)
from nnfuzz.backend.registry import BackendRegistry, BackendSpec, address, plugin_module
from nnfuzz.backend.releases import home_of
from nnfuzz.backend.target import DEFAULT, ONNX, Pipeline, Target
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.sandbox.events import (
    TEXT_CHARS,
    Death,
    DeathKind,
    Event,
    Limits,
    Progress,
    Reply,
    WorkerFault,
    shortened,
)
from nnfuzz.sandbox.forkserver import ForkClient, ForkServer, Home
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.sandbox import Sandbox, wait

A = TypeVar("A")
SERVICE = "nnfuzz.backend.service:BackendService"
WARM_UP = "nnfuzz.backend.service:warm_up"
AFTER_A_HANG, AT_LEAST = 0.25, 5.0
"""Share of the time limit, and seconds, that a level gets once one before it has hung: most hang
there as well, and those that do not need a fraction of it. It is no measurement, since what counts
as a hang must not depend on how fast earlier tests were."""


_STAGES = (Stage.EXPORT, Stage.TRANSFORM, Stage.IMPORT, Stage.COMPILE, Stage.EXECUTE)
"""The stages of a worker; a status page that names another stage is damaged."""
_TRACING = ("nnfuzz.backend.modules", "torch._dynamo", "torch.export")
"""Libraries that turn a graph into a module of PyTorch; their import takes seconds."""
_POSSIBLE = {
    (kind, stage)
    for kind in OutcomeKind
    for stage in _STAGES
    if kind not in (OutcomeKind.TIMEOUT, OutcomeKind.MISMATCH)
}
_UNSIGNALLED = (DeathKind.TIMEOUT, DeathKind.EXIT)


class RunnerError(RuntimeError):
    """The backend cannot be started or its adapter is at fault: no outcome of the compiler."""


class AdapterFault(RunnerError):
    """The adapter itself made a mistake: if no model did well before, none will."""


class BackendRunner:
    """One worker of one backend.

    In a campaign: `submit`, then `sandbox.wait([..., runner.sandbox])`, and every event of that
    sandbox goes to `feed`, which returns the outcomes once all levels have one. Elsewhere: `run`.
    A level whose process dies gets an outcome made of the death; the levels after it go to a new
    process. `server` shares a fork server among runners (preload `backend.preload` there).
    `release` of the targets is known once the worker has sent its versions or an outcome; `reads`
    is the form of the models (Backend.form); `habits` of the compiler are known once somebody has
    asked for them (nnfuzz.triage.survey.learn_habits), as are `elementary`, the seconds of its
    slowest model of one operator, and how many of them `hung`. `works`: whether any model has done
    well.
    """

    def __init__(
        self,
        spec: BackendSpec,
        registry: BackendRegistry | None = None,
        server: ForkClient | None = None,
        limits: Limits | None = None,
    ):
        self.spec = spec
        self.registry = registry or BackendRegistry.discover(spec.plugins)
        self.backend = self.registry.get(spec.name)
        abroad = usable(self.backend, spec) is not None
        self._made = self.backend(**spec.options)
        self.options = self._made.options
        self._release = self._made.declared("release")
        self.reads = self._made.form
        self.habits: tuple[Deviation, ...] = ()
        self.elementary, self.hung = 0.0, 0
        self.works = False
        self._arguments = {
            "spec": as_json(spec),
            "adapter": address(self.backend),
            "abroad": abroad,
        }
        self.sandbox = Sandbox(
            SERVICE,
            self._arguments,
            limits or limits_of(self.options),
            server=server,
            own_server=lambda: fork_server_of(self.backend, spec),
        )
        self._job = RunLevels(b"", {}, ())
        """The job to be sent, with the levels that have no outcome yet."""
        self._form = ""
        self._done: list[Outcome] = []
        self._seconds = math.inf
        self._answered = 0  # levels when the job in hand was sent
        self._imported = ""  # the output until the import of the test case failed

    @property
    def name(self) -> str:
        return self.spec.label

    @property
    def release(self) -> str:
        """The release of the compiler; "" while it is not known."""
        return self._release

    @release.setter
    def release(self, release: str) -> None:
        """Workers that start from now on need not ask the compiler."""
        if release != self._release:
            self._release = release
            self.sandbox.rearm({**self._arguments, "release": release})

    @property
    def busy(self) -> bool:
        """Whether a test case is in hand."""
        return self.sandbox.busy

    def draw_pipeline(self, rng: random.Random, several: bool = False) -> Pipeline | None:
        """See Backend.draw_pipeline. several: whether the model is called several times: one
        pipeline in four then says in which way.
        """
        drawn = self._made.draw_pipeline(rng)
        if not several or rng.random() < 0.75:
            return drawn
        plain = drawn or Pipeline(self.backend.default_levels()[-1])
        return Pipeline(plain.level, (*plain.steps, rng.choice(self.backend.ways())))

    def submit(self, job: RunLevels, form: str = "", seconds: float = math.inf) -> None:
        """Starts a test case at the levels of the job (none: the backend's default pair).

        form: of the targets: who wrote the model. seconds: of each level, where that is less than
        the time limit. Returns at once. Raises: OptionError for an unknown level, RuntimeError
        while busy.
        """
        levels = job.levels or self.backend.default_levels()
        for level in levels:
            self.backend.check_level(level)
        if self.busy:
            raise RuntimeError(f"runner {self.spec} is busy")
        self._job, self._form, self._seconds = replace(job, levels=levels), form, seconds
        self._done, self._imported = [], ""
        self._send()

    def feed(self, event: Event) -> list[Outcome] | None:
        """Takes an event of `sandbox`; returns all outcomes, in level order, once there are all.

        Raises: RunnerError if the worker cannot start, or the fault is not the compiler's.
        """
        if isinstance(event, Progress):
            captured = self._foreign(event.captured)
            self._done.append(self._heard(replace(event.value, captured=captured)))
            self.works = self.works or event.value.ok
            return None
        if isinstance(event, WorkerFault):
            if event.error_type.endswith("AdapterError"):
                raise AdapterFault(f"adapter of {self.spec}: {event.message}\n{event.traceback}")
            raise RunnerError(
                f"backend {self.spec}: {event.error_type}: {event.message}\n{event.traceback}"
            )
        # The sandbox repeats a job without blame for a death, unless a level has answered.
        repeats = isinstance(event, Death) and event.from_outside
        if isinstance(event, Death) and not (repeats and len(self._done) > self._answered):
            self._mourn(event)
        if isinstance(event, Reply):
            self._take_held(event.value)
        if self._job.levels:
            self._send()
            return None
        return [self._completed(outcome) for outcome in self._done]

    def _take_held(self, held: Iterable[HeldOutputs]) -> None:
        """Gives the outcomes of levels that agree their outputs, which a verdict needs."""
        late = {level.level: level.outputs for level in held}
        self._done = [
            replace(o, outputs=dict(late[o.level])) if o.agrees and o.level in late else o
            for o in self._done
        ]

    def run(
        self,
        model: bytes,
        inputs: Mapping[str, np.ndarray],
        levels: Iterable[str] | None = None,
        without: Iterable[str] = (),
        form: str = "",
        seconds: float = math.inf,
    ) -> list[Outcome]:
        """Runs a test case and waits for it. Raises: as `submit` and `feed`."""
        job = RunLevels(model, inputs, tuple(levels or ()), tuple(without))
        self.submit(job, form, seconds)
        return self.wait()

    def wait(self) -> list[Outcome]:
        """The outcomes of the submitted job. Raises: as `feed`."""
        while True:
            for _, event in wait([self.sandbox]):
                outcomes = self.feed(event)
                if outcomes is not None:
                    return outcomes

    def fired_passes(self, model: bytes, level: str) -> list[str] | None:
        """The passes that changed the model at a level; None if the backend cannot tell."""
        return self._answer(ListPasses(model, level, Passes.FIRED))

    def changed_passes(self, model: bytes, level: str) -> list[str] | None:
        """The passes that certainly changed it (Backend.changed_passes); None as well if it
        fails.
        """
        return self._answer(ListPasses(model, level, Passes.CHANGED))

    def known_passes(self, model: bytes, level: str) -> list[str] | None:
        """All passes that run on the way to a level; None if the backend cannot name them."""
        return self._answer(ListPasses(model, level, Passes.KNOWN))

    def code(self, source: bytes) -> str:
        """A test case as source of PyTorch, see nnfuzz.backend.modules.TorchSource.code; "" if it
        cannot be written."""
        return self._answer(WriteCode(source)) or ""

    def _answer(self, job: Job[A]) -> A | None:
        """The worker's answer; None if there is none."""
        event = self.sandbox.call(job)
        return event.value if isinstance(event, Reply) else None

    def versions(self) -> dict[str, str]:
        """Asks the worker for the compiler's versions. Raises: RunnerError if it cannot start."""
        event = self.sandbox.call(AskVersions())
        if isinstance(event, WorkerFault):
            raise RunnerError(f"backend {self.spec}: {event.error_type}: {event.message}")
        if isinstance(event, Death):
            cause = _cause(event)
            if event.kind is DeathKind.TIMEOUT and event.stage == "start":
                cause = f"its imports took more than {self.sandbox.limits.start_seconds:.0f} s"
            raise RunnerError(f"backend {self.spec} cannot start: {cause}\n{event.captured}")
        self.release = event.value.release
        return event.value.versions

    def close(self) -> None:
        self.sandbox.close()

    def __enter__(self) -> BackendRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self) -> None:
        self._answered = len(self._done)
        self.sandbox.submit(self._job, self._seconds, self._take)

    def _take(self, outcome: Outcome) -> Outcome:
        """The outcome of the next level. Raises: ValueError for any other one."""
        next_level, *rest = self._job.levels
        self.release = visible(outcome.target.release)
        compares = self._job.reference is not None
        taken = checked(outcome, self._made.target(next_level, self.release), compares)
        self._job = replace(self._job, levels=tuple(rest))
        return taken

    def _mourn(self, death: Death) -> None:
        if death.stage == "start":
            raise RunnerError(
                f"backend {self.spec}: the worker died before it began: "
                f"{_cause(death)}\n{death.captured}"
            )
        if not self._job.levels:  # every level was answered before it died
            return
        if death.kind is DeathKind.TIMEOUT:
            short = max(AT_LEAST, AFTER_A_HANG * self.sandbox.limits.seconds)
            self._seconds = min(self._seconds, short)
        outcome = _outcome(replace(death, captured=self._foreign(death.captured)))
        text = CompilerError(outcome.stage, captured=outcome.captured)
        with self._asking("complaint"):
            outcome = replace(outcome, complaint=self.backend.complaint(text))
        # An import that kills the process would kill it again at every other level.
        levels = self._job.levels
        dead = levels if outcome.stage is Stage.IMPORT else levels[:1]
        self._job = replace(self._job, levels=levels[len(dead) :])
        for level in dead:
            self._done.append(replace(outcome, target=self._made.target(level)))
            outcome = replace(outcome, seconds={})

    def _foreign(self, printed: str) -> str:
        """What a worker has printed, without paths of its machine."""
        if not printed:
            return ""
        return self.sandbox.code_paths.with_adapter(files_of(self.backend)).foreign(printed)

    def _heard(self, outcome: Outcome) -> Outcome:
        """The outcome of an exception with the reason that the compiler printed (Backend.console)
        as its message, and the complaint that this makes; an import prints once for all levels.

        It is read here and not in the worker, so that nothing is put in the way of a crash handler
        and of what a dying process says last.
        """
        printed, kind = outcome.captured, outcome.kind
        if outcome.stage is Stage.IMPORT:
            printed = self._imported = self._imported or printed
        if kind not in (OutcomeKind.EXCEPTION, OutcomeKind.UNSUPPORTED):
            return outcome
        with self._asking("console"):
            if not (reason := self.backend.console(printed)):
                return outcome
            message = shortened(visible(reason))
            error = CompilerError(outcome.stage, outcome.error_type, message, outcome.traceback)
            complaint = self.backend.complaint(error)
        if kind is OutcomeKind.UNSUPPORTED:
            complaint = complaint.of_kind(ComplaintKind.UNSUPPORTED)
        elif complaint.kind is ComplaintKind.UNSUPPORTED:
            kind = OutcomeKind.UNSUPPORTED
        return replace(outcome, kind=kind, message=message, complaint=complaint)

    @contextmanager
    def _asking(self, method: str) -> Iterator[None]:
        """An error of an adapter's text reader is its own fault: no compiler is loaded here."""
        try:
            yield
        except Exception as error:
            raise AdapterFault(f"adapter of {self.spec}: {method}() failed: {error!r}") from error

    def _completed(self, outcome: Outcome) -> Outcome:
        """Adds the fields that the worker does not know, or died before it could send."""
        target = replace(outcome.target, release=self.release, form=self._form)
        label = self.spec.label if self.spec.label != target.compiler else ""
        baseline = outcome.level == self.backend.baseline
        given = self.backend.given_away() if outcome.level == DEFAULT else ()
        return replace(outcome, target=target, label=label, baseline=baseline, given_away=given)


def checked(outcome: Outcome, target: Target, compares: bool = False) -> Outcome:
    """An outcome that a worker has sent. target: the one that it was to run. compares: whether the
    worker compares outputs, and may send none.

    Raises: ValueError if it is no outcome, or that of another target.
    """
    if outcome.target != target or (outcome.kind, outcome.stage) not in _POSSIBLE:
        raise ValueError(f"{outcome.kind} at {outcome.stage} of {outcome.target}, not {target}")
    texts = outcome.error_type, outcome.message, outcome.traceback
    subject = outcome.complaint.subject if outcome.complaint else ""
    if max(map(len, (*texts, subject))) > 2 * TEXT_CHARS:
        raise ValueError("a text that is too long")
    ran = outcome.ok and outcome.stage is Stage.EXECUTE
    agrees = compares and outcome.outputs is None
    return replace(outcome, outputs=(outcome.outputs or {}) if ran and not agrees else None)


def limits_of(options: Any) -> Limits:
    """The sandbox limits that a backend's options ask for."""
    return Limits(
        seconds=options.timeout,
        memory_bytes=int(options.memory * (1 << 30)),
        jobs_per_process=options.jobs,
    )


def usable(backend: type[Backend], spec: BackendSpec) -> Home | None:
    """Where a backend's workers run, which is made if it has to be; None for where this process
    does. Raises: ReleaseError, RunnerError; the message says the fix.
    """
    if spec.release and backend(**spec.options).form != ONNX:
        raise RunnerError(f"{spec} reads PyTorch, which environments of releases do not have")
    home = home_of(backend, spec.release)
    reason = backend.missing() if home is None else None
    if reason:
        raise RunnerError(f"backend {spec.name} cannot be used: {reason}")
    return home


def fork_server_of(backend: type[Backend], spec: BackendSpec) -> ForkServer:
    """A fork server that has imported a backend's compiler, in the environment that it wants.

    Raises: ReleaseError, RunnerError.
    """
    preload = ["numpy", "numpy.random", "onnx", "onnx.helper", "nnfuzz.backend.service"]
    preload += backend.preload
    plugins = set(map(plugin_module, spec.plugins))  # may do anything where they are imported
    preload += [base.__module__ for base in backend.__mro__ if base.__module__ not in plugins]
    if backend(**spec.options).form != ONNX:
        preload += _TRACING
    home = usable(backend, spec)
    return ForkServer(preload, backend.environment, warm=(WARM_UP, {}), home=home)


class CompilerServers:
    """Fork servers that have imported compilers; each is started when it is first asked for, and
    serves everything that runs the compiler: its import takes seconds.
    """

    def __init__(self) -> None:
        self._servers: dict[tuple[str, ...], ForkClient] = {}

    def of(self, backend: type[Backend], spec: BackendSpec) -> ForkClient:
        """The fork server of a compiler's release. Raises: ReleaseError, RunnerError."""
        key = _key(backend, spec)
        if key not in self._servers:
            self._servers[key] = fork_server_of(backend, spec)
        return self._servers[key]

    def put(self, backend: type[Backend], spec: BackendSpec, server: ForkClient) -> None:
        """Has a fork server used that is there already; it is closed with the others."""
        self._servers[_key(backend, spec)] = server

    def runner(
        self, spec: BackendSpec, registry: BackendRegistry, limits: Limits | None = None
    ) -> BackendRunner:
        """A new worker of a backend. Raises: RegistryError, OptionError, as well as `of`."""
        return BackendRunner(spec, registry, self.of(registry.get(spec.name), spec), limits)

    def close(self) -> None:
        for server in self._servers.values():
            server.close()


def _key(backend: type[Backend], spec: BackendSpec) -> tuple[str, ...]:
    return spec.name, spec.release, backend(**spec.options).form


def _outcome(death: Death) -> Outcome:
    """The outcome of a worker's death for the level that was running; its target is not set."""
    word = death.stage.partition(" ")[0]
    stage = Stage(word) if word in _STAGES else Stage.IMPORT
    timeout = death.kind is DeathKind.TIMEOUT
    return Outcome(
        kind=OutcomeKind.TIMEOUT if timeout else OutcomeKind.CRASH,
        stage=stage,
        target=Target(),
        message=_cause(death),
        signal="" if death.note or death.kind in _UNSIGNALLED else death.signal,
        captured=death.captured,
        seconds={stage.value: death.seconds},
        over_memory_limit=death.kind is DeathKind.MEMORY,
    )


def _cause(death: Death) -> str:
    if death.kind is DeathKind.TIMEOUT:
        return death.note or "exceeded the time limit"
    if death.kind is DeathKind.MEMORY:
        return f"{MEMORY_LIMIT} exceeded"
    if death.kind is DeathKind.EXIT:
        return f"exited with code {death.exit_code}"
    if death.note:
        return death.note
    return f"killed by {death.signal}"
