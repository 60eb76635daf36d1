"""The service inside of a backend's worker: models and inputs in, one outcome per level out."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import numpy as np

from nnfuzz.backend.causes import innermost
from nnfuzz.backend.complaint import (
    CompilerError,
    Complaint,
    ComplaintKind,
    described,
    reads_as_internal,
)
from nnfuzz.backend.contract import (
    AdapterError,
    Backend,
    BackendUnavailable,
    Executable,
    Imported,
    NoDevice,
    OptionError,
    files_of,
    own_fault,
)
from nnfuzz.backend.costs import floats32, growth, in_float32, times_the_cpu
from nnfuzz.backend.interface import InputError, OnnxModel
from nnfuzz.backend.numeric import agree
from nnfuzz.backend.outcome import (
    LACKING,
    MEMORY_LIMIT,
    AskVersions,
    HeldOutputs,
    ListPasses,
    Outcome,
    OutcomeKind,
    RunLevels,
    Stage,
    Versions,
    WriteCode,
)
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.backend.target import ONNX, Pipeline, Target
from nnfuzz.base.reading import JsonObject
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.sizes import by_copy, from_copies
from nnfuzz.sandbox.events import reads_as_lacking, reads_as_out_of_memory
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.sandbox.wire import stand_in

if TYPE_CHECKING:
    from nnfuzz.backend.modules import TorchSource

EXCESS, MOST_BYTES = 16, 1 << 20
"""An output is sent if it takes up to so many times the expected bytes, or so many bytes: the
widest dtype has 16 times the bytes of the narrowest, so a larger output has more elements.
"""
_NOT_THE_COMPILER = (
    AdapterError,
    InputError,
    OptionError,
    BackendUnavailable,
    NoDevice,
    MemoryError,
    SystemExit,
)


class _Stopped(Exception):
    """A stage failed; carries the outcome's fields."""

    def __init__(self, fields: JsonObject):
        super().__init__()
        self.fields = fields


class BackendService(Service):
    """Runs test cases on one backend, which is made from its specification in the worker.

    adapter: see BackendSpec.load. abroad: whether this is an environment of its own. release: that
    of the compiler, if it is known; asking may take a while.
    """

    def __init__(
        self, spec: JsonObject, adapter: str = "", abroad: bool = False, release: str = ""
    ):
        self._spec = BackendSpec.from_json(spec)
        self._backend: Backend = self._spec.load(adapter)
        self._abroad = abroad
        reason = self._backend.missing()
        if reason:
            raise BackendUnavailable(reason)
        self._job = RunLevels(b"", {}, ())
        # Imports the compiler before crash handlers are installed.
        self._since = time.process_time()
        """When the compiler's work for the next outcome began, by the CPU clock of the process,
        which is read twice for an outcome, since that takes a system call."""
        self._release = release or self._backend.release

    @does(ListPasses)
    def passes(self, job: ListPasses, report: Report) -> list[str]:
        imported = self._imported(job.model)  # kept: a compiler may still read from its file
        level = str(Pipeline.parse(job.level).built)
        return list(getattr(self._backend, job.which)(imported.module, level))

    @does(WriteCode)
    def code(self, job: WriteCode, report: Report) -> str:
        return self._source(job.model).code()

    @does(RunLevels)
    def run(self, job: RunLevels, report: Report) -> tuple[HeldOutputs, ...]:
        self._job, self._since = job, time.process_time()
        held: list[HeldOutputs] = []
        try:
            with _numpy_needed():
                sent = [self._report(outcome, held, report) for outcome in self._outcomes(report)]
        finally:
            self._job = RunLevels(b"", {}, ())
        return tuple(held) if any(sent) else ()

    def _report(self, outcome: Outcome, held: list[HeldOutputs], report: Report) -> bool:
        """Sends an outcome; returns whether outputs are sent. held: gets those that are not."""
        outputs = _limited(outcome.outputs or {}, self._job.expected)
        reference, ran = self._job.reference, outcome.outputs is not None
        agrees = ran and reference is not None and agree(reference, outputs)
        if agrees:
            held.append(HeldOutputs(outcome.level, {n: a.copy() for n, a in outputs.items()}))
        report.part(replace(outcome, outputs=None if agrees else outputs))
        self._since = time.process_time()
        return ran and not agrees

    @does(AskVersions)
    def versions(self, job: AskVersions, report: Report) -> Versions:
        """The versions; in an environment of its own, also those of the libraries there."""
        versions = self._backend.versions()
        if self._abroad:
            import onnx

            versions |= {"numpy": np.__version__, "onnx": onnx.__version__}
        return Versions(versions, self._release)

    def _source(self, model: bytes) -> TorchSource:
        from nnfuzz.backend.modules import read_source

        return read_source(model, self._spec.plugins, self._backend.device)

    def _imported(self, model: bytes) -> Imported:
        if self._job.invalid:  # it need not have an interface that can be read
            return Imported(self._loaded(model), {}, ())
        given = model if self._backend.form == ONNX else self._source(model)
        return self._backend.import_model(given)

    def _loaded(self, model: bytes) -> object:
        """The loaded model. Its declared interface may be unreadable."""
        try:
            return self._backend.load(OnnxModel(model))
        except InputError as error:
            raise NotImplementedError(str(error)) from error

    def _outcomes(self, report: Report) -> Iterator[Outcome]:
        """Yields one outcome per level; the time of the shared import goes to the first one."""
        seconds: dict[str, float] = {}
        model, levels = self._job.model, self._job.levels
        try:
            imported = self._timed(
                Stage.IMPORT, levels[0], seconds, report, lambda: self._imported(model)
            )
        except _Stopped as stop:
            for level in levels:
                yield self._outcome(level, seconds, **stop.fields)
                seconds = {}
            return
        well = self._job.until is Stage.IMPORT
        for level in levels:
            if well and level != self._backend.baseline:
                yield self._outcome(level, seconds, kind=OutcomeKind.OK, stage=self._job.until)
            else:
                outcome = self._level(imported, level, seconds, report)
                well = well or (self._job.lazy and outcome.ok)
                yield outcome
            seconds = {}

    def _level(
        self,
        imported: Imported,
        level: str,
        seconds: dict[str, float],
        report: Report,
    ) -> Outcome:
        job = self._job
        try:
            program = self._timed(
                self._backend.compiling,
                level,
                seconds,
                report,
                lambda: self._backend.compile(imported, level, job.without),
            )
            # A baseline that is not run to its end would excuse all the others.
            if job.until is self._backend.compiling and level != self._backend.baseline:
                return self._outcome(level, seconds, kind=OutcomeKind.OK, stage=job.until)
            if job.invalid:
                return self._accepted(program, level, seconds, report)
            execute = partial(_runs, program, job.inputs)
            outputs = self._timed(Stage.EXECUTE, level, seconds, report, execute)
            costs = self._costs(imported, level, execute) if job.costs else None
            del program, execute  # the compiler frees its own objects
        except NoDevice:
            return self._outcome(level, seconds, kind=OutcomeKind.OK, stage=Stage.COMPILE)
        except _Stopped as stop:
            return self._outcome(level, seconds, **stop.fields)
        if costs:
            return self._outcome(level, seconds, stage=Stage.EXECUTE, **costs)
        return self._outcome(
            level, seconds, kind=OutcomeKind.OK, stage=Stage.EXECUTE, outputs=outputs
        )

    def _costs(
        self, imported: Imported, level: str, call: Callable[[], object]
    ) -> JsonObject | None:
        """The fields of the outcome of a program that is slow or leaks; None if it does neither.

        A rival that fails, as a model in another dtype may, is not compared. Nor is the CPU of a
        drawn pipeline or of DEFAULT, since their threads may wait busily.
        """
        kinds = self._job.costs
        compared = OutcomeKind.SLOW in kinds and level in self._backend.levels
        rivals = (self._backend.default_levels()[0], DType.FLOAT32.value) if compared else ()
        for rival in (own for own in rivals if own != level):
            with suppress(Exception):
                if times := times_the_cpu(call, self._rival(imported, level, rival)):
                    message = f"takes {times:.0f} times the CPU of {rival}"
                    return {"kind": OutcomeKind.SLOW, "message": message, "rival": rival}
        with suppress(Exception):
            if OutcomeKind.LEAK in kinds and (size := growth(call)):
                message = f"grows the used memory by {size} bytes a call"
                return {"kind": OutcomeKind.LEAK, "message": message}
        return None

    def _rival(self, imported: Imported, level: str, rival: str) -> Callable[[], object]:
        """The call of another level, or of the same model in float32. Raises: any error."""
        inputs = self._job.inputs
        if rival == DType.FLOAT32.value:
            imported, inputs = self._imported(in_float32(self._job.model)), floats32(inputs)
            rival = level
        return partial(_runs, self._backend.compile(imported, rival), inputs)

    def _accepted(
        self,
        program: Executable,
        level: str,
        seconds: dict[str, float],
        report: Report,
    ) -> Outcome:
        """The outcome of running a program that should not have been built. Raises: _Stopped."""
        kind = OutcomeKind.ACCEPTED if self._backend.validates else OutcomeKind.OK
        stage = Stage.EXECUTE
        try:
            self._timed(
                stage, level, seconds, report, lambda: program.program({**self._job.inputs})
            )
        except NoDevice:
            stage = Stage.COMPILE
        return self._outcome(level, seconds, kind=kind, stage=stage)

    def _timed(
        self,
        stage: Stage,
        level: str,
        seconds: dict[str, float],
        report: Report,
        step: Callable[[], Any],
    ) -> Any:
        report(f"{stage} {level}")
        start = time.perf_counter()
        try:
            return step()
        except _NOT_THE_COMPILER:
            raise
        except BaseException as error:  # Rust bindings raise panics outside of Exception
            if own_fault(error, type(self._backend)) and not self._job.invalid:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{Path(where.filename).name}:{where.lineno}"
                raise AdapterError(f"{type(error).__name__}: {error} ({place})") from error
            raise _Stopped({"stage": stage, **self._classify(error, stage)}) from None
        finally:
            seconds[stage.value] = time.perf_counter() - start

    def _classify(self, error: BaseException, stage: Stage) -> dict[str, object]:
        """Kind, texts and complaint of an error that a stage raised."""
        text = described(error, stage, files_of(type(self._backend)))
        complaint, kind = self._backend.complaint(text), OutcomeKind.EXCEPTION
        message, over = text.message, False
        if reads_as_lacking(message):
            message = f"{LACKING}: {message}"
            complaint = complaint.of_kind(ComplaintKind.UNSUPPORTED)
        if complaint.kind is ComplaintKind.UNSUPPORTED:
            kind = OutcomeKind.UNSUPPORTED
        if kind is OutcomeKind.EXCEPTION and reads_as_out_of_memory(message):
            kind, message, over = OutcomeKind.CRASH, f"{MEMORY_LIMIT}: {message}", True
        elif self._job.invalid and kind is OutcomeKind.EXCEPTION:
            kind = self._answer(error, text)
        return {
            "kind": kind,
            "error_type": text.error_type,
            "message": message,
            "traceback": text.traceback,
            "complaint": complaint,
            "over_memory_limit": over,
        }

    def _answer(self, error: BaseException, text: CompilerError) -> OutcomeKind:
        """The kind of an error where there has to be one. An adapter that stumbles over the model
        itself says nothing of its compiler.
        """
        if own_fault(error, type(self._backend)):
            return OutcomeKind.UNSUPPORTED
        adapter = getattr(sys.modules.get(type(self._backend).__module__), "__file__", None)
        packages = {name.partition(".")[0] for name in self._backend.preload}
        # An error that the adapter itself raises is its answer, not a slip.
        deliberate = innermost(text.traceback)[0] == adapter
        internal = not deliberate and reads_as_internal(text, packages)
        return OutcomeKind.EXCEPTION if internal else OutcomeKind.REFUSED

    def _outcome(self, level: str, seconds: dict[str, float], **fields: Any) -> Outcome:
        target, cpu = self._backend.target(level, self._release), time.process_time() - self._since
        return Outcome(target=target, seconds=dict(seconds), cpu=cpu, **fields)


def warm_up() -> Service:
    """Writes and reads a job and an outcome, once in a fork server. Its workers inherit the readers
    and writers that are made for that.
    """
    arrays = {"x": np.zeros(1)}
    job = RunLevels(b"", arrays, ("O0",), expected={}, reference=arrays)
    fields = {"outputs": arrays, "complaint": Complaint()}
    outcome = Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("compiler"), **fields)  # type: ignore[arg-type]
    for value in (job, outcome):
        kind = type(value)
        unpack(kind, *pack(kind, value))
    return Service()


@contextmanager
def _numpy_needed() -> Iterator[None]:
    """Ends the process if a library has broken NumPy: a crash where that shows, no fault of
    nnfuzz, and no matter of the next model.
    """
    try:
        yield
    except Exception as error:
        if _numpy_works():
            raise
        raise SystemExit(f"NumPy was broken in this process: {error!r}") from error
    if not _numpy_works():
        raise SystemExit("NumPy was broken in this process")


def _numpy_works() -> bool:
    try:
        ones = np.ascontiguousarray(np.asarray(np.array([1.0, 1.0])))
        return bool(np.array_equal(ones, np.ones(2)) and ones.sum() == 2.0)
    except Exception:
        return False


def _limited(
    outputs: Mapping[str, np.ndarray], expected: Mapping[str, int] | None
) -> dict[str, np.ndarray]:
    """The outputs, with stand-ins for those that are much larger than expected.

    Such an output has another shape, whatever its dtype, and that is all there is to say of it.
    """
    if expected is None:
        return dict(outputs)
    most = {name: max(MOST_BYTES, EXCESS * expected.get(name, 0)) for name in outputs}
    return {k: a if a.nbytes <= most[k] else stand_in(a) for k, a in outputs.items()}


def _runs(program: Executable, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a program. If the inputs are those of several calls (nnfuzz.ir.sizes), it is
    called one time after the other, or by threads at the same time, and the outputs are read once
    all calls are over: a later call may not change earlier results.
    """
    if inputs.keys() == program.imported.inputs.keys():
        return program({**inputs})
    parts = by_copy(inputs)
    if not program.at_once:
        return from_copies(map(program, parts))
    together = Barrier(len(parts))

    def call(part: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        together.wait()
        return program(part)

    with ThreadPoolExecutor(len(parts)) as threads:
        return from_copies(threads.map(call, parts))
