"""The contract of a backend: one compiler under test, behind checks that every adapter needs.

An adapter subclasses `Backend`, names its levels and implements two steps::

    @backend
    class Toy(Backend):
        name = "toy"
        levels = ("O0", "O1")
        preload = ("toycompiler",)

        def versions(self):
            return {"toycompiler": toycompiler.__version__}

        def load(self, model):                  # stage import: ONNX bytes -> anything
            return toycompiler.parse(model)

        def build(self, module, level):         # stage compile -> a callable, stage execute
            program = toycompiler.build(module, optimise=level == "O1")
            return lambda inputs: dict(zip(program.output_names, program(**inputs)))

Import the compiler inside of methods, never at the top of the file: the campaign imports the
adapter to learn its name and options, and must stay free of compilers. `preload` names what the
fork server imports. Configure the compiler for IEEE arithmetic: no TF32, no bfloat16, no fast-math,
one thread. `nnfuzz.backend.conformance.check_backend` tests an adapter.
"""

from __future__ import annotations

import difflib
import importlib.util
import itertools
import linecache
import random
import sys
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import Field, dataclass, field, fields
from functools import cache, cached_property
from string import Formatter
from typing import Any, ClassVar, Literal, Protocol

import numpy as np

from nnfuzz.backend.causes import states_limit
from nnfuzz.backend.complaint import CompilerError, Complaint, Stage, read_complaint
from nnfuzz.backend.interface import Arrays, ModelFile, OnnxModel, TensorSpec, check_inputs
from nnfuzz.backend.target import (
    CPU,
    DEFAULT,
    EXPORTED,
    MODULE,
    ONNX,
    THREADS,
    TURNS,
    Pipeline,
    Target,
)
from nnfuzz.base.external_data import names_files
from nnfuzz.base.packed_values import Packing, PackingError, elements, packed, unpacked
from nnfuzz.base.reading import MOST, Unreadable
from nnfuzz.sandbox.wire import has_wire_form

PARTS = (
    *("symptom", "report", "repro", "error", "versions", "platform", "expected"),
    *("device", "machine"),
)
"""The fields of a section, in braces: one sentence; the whole report; the stand-alone script; the
error with its traceback; versions of everything; operating system and processor; what is right; the
device that the failing target runs on; the processor's architecture."""


@dataclass(frozen=True)
class IssueForm:
    """A tracker on GitHub and the form that it asks to be filled in.

    repository: "owner/name"; "" for a tracker that nobody knows. sections: heading -> text, with
    PARTS in braces. prefix: of titles.
    """

    repository: str
    sections: tuple[tuple[str, str], ...]
    prefix: str = ""

    def __post_init__(self) -> None:
        """Raises: ValueError for a part that there is not."""
        for heading, text in self.sections:
            for _, name, _, _ in Formatter().parse(text):
                if name is not None and name not in PARTS:
                    raise ValueError(f"section {heading!r}: {name!r} is none of {', '.join(PARTS)}")


@dataclass(frozen=True)
class Override:
    """A setting of an adapter in place of the compiler's default, and the reason for it.

    step: as in a pipeline, a word or "NAME=VALUE". exact: whether the default gives accuracy away.
    """

    step: str
    why: str
    exact: bool = True


PLAIN = IssueForm(
    "",
    (
        ("What happens", "{symptom}\n\n{error}"),
        ("What is expected", "{expected}"),
        ("How to reproduce", "{repro}"),
        ("Versions", "{platform}\n\n{versions}"),
        ("Report", "{report}"),
    ),
)
"""The form for a compiler whose adapter names no tracker."""


Program = Callable[[dict[str, np.ndarray]], Mapping[str, np.ndarray]]


class OptionError(Unreadable):
    """An option that the backend does not have, or a value that does not fit it."""


class BackendUnavailable(RuntimeError):
    """The compiler, or the device that the options name, is not here; the message names the fix."""


class NoDevice(Exception):
    """A program has been built and there is nothing here to run it on; for `build`'s programs.

    What comes of the level is ok at stage compile, without outputs.
    """


class AdapterError(TypeError):
    """The adapter made a mistake, which is no finding about the compiler.

    It stops a campaign, unless the adapter has worked before: then it costs one test.
    """


class OutputError(ValueError):
    """An output is missing, or is nothing that a tensor can be.

    It is an outcome of the test, since compilers lose outputs of single models. An adapter that
    loses the outputs of every elementary model is at fault itself (nnfuzz.triage.survey).
    """


_SLIPS = (NameError, AttributeError, LookupError, TypeError, ImportError)
"""Errors that Python raises for mistakes in the code at hand; UnboundLocalError is a NameError."""


class InputChanged(RuntimeError):
    """A program wrote to its inputs, which belong to the caller: an outcome of the test."""


def own_fault(error: BaseException, adapter: type) -> bool:
    """Whether the adapter's own code made a mistake: the innermost frame is a line of its module
    that does not raise, and the error is one that Python itself raises for slips, and states no
    limit of what that line calls.
    """
    if not isinstance(error, _SLIPS) or states_limit(str(error)):
        return False
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    ours = getattr(sys.modules.get(adapter.__module__), "__file__", None)
    if trace is None or trace.tb_frame.f_code.co_filename != ours:
        return False
    line = linecache.getline(ours, trace.tb_lineno, trace.tb_frame.f_globals).strip()
    return not line.startswith("raise")


def files_of(adapter: type[Backend]) -> tuple[str, ...]:
    """The files of the modules that define an adapter's class and the adapters it derives from."""
    classes = (base for base in adapter.__mro__ if issubclass(base, Backend))
    modules = (sys.modules.get(base.__module__) for base in classes)
    return tuple(file for module in modules if (file := getattr(module, "__file__", None)))


def option(default: Any, help: str, positive: bool = False, means: str = "") -> Any:
    """A field of an `Options` class, with the line that `nnfuzz backends` shows for it.

    positive: a number that must be more than 0. means: "device", "release" or "form" where the
    option says that coordinate of a target (nnfuzz.backend.target), as those of these names do.
    """
    about = {"help": help, "positive": positive, "means": means}
    return field(default=default, metadata=about)


@dataclass(frozen=True, kw_only=True)
class BackendOptions:
    """Options that every backend has; an adapter extends them in a nested dataclass `Options`.

    Types may be str, int, float, bool and Literal[...]; text from the command line is converted.
    """

    timeout: float = option(60.0, "seconds that one level of one test case may take", positive=True)
    memory: float = option(4.0, "GiB by which one test case may grow the worker", positive=True)
    jobs: int = option(200, "test cases after which the worker process is replaced", positive=True)
    opset: int = option(0, "ONNX opset to export for; 0 leaves the choice to the campaign")


class Source(Protocol):
    """A model that is not ONNX and describes its own inputs and outputs."""

    @property
    def inputs(self) -> Mapping[str, TensorSpec]: ...
    @property
    def outputs(self) -> tuple[str, ...]: ...


@dataclass(frozen=True)
class Imported:
    """A model as the compiler's importer left it, and the interface that the file declares.

    file: the file that the compiler may still read from; None if it got bytes. packed_inputs,
    packed_outputs: those of the file that are texts or maps of `inputs` and `outputs`.
    loose: the outputs that are no tensors of numbers otherwise, whose elements are returned.
    """

    module: Any
    inputs: dict[str, TensorSpec]
    outputs: tuple[str, ...]
    file: ModelFile | None = None
    packed_inputs: Packing = field(default_factory=dict)
    packed_outputs: Packing = field(default_factory=dict)
    loose: Collection[str] = ()


class Backend(ABC):
    """One compiler under test. Levels are ordered from the least to the most optimised."""

    name: ClassVar[str]
    levels: ClassVar[tuple[str, ...]]
    steps: ClassVar[tuple[str, ...]] = ()
    """Steps that may follow a level in a drawn pipeline, see `draw_pipeline`: words without any of
    "+, "."""
    overrides: ClassVar[tuple[Override, ...]] = ()
    """What the adapter sets at every level and the compiler's users do not. If some are `exact`,
    `build` also gets the level DEFAULT: the most optimised one without these, as users have it; and
    DEFAULT with some of them as steps behind it."""
    threads: ClassVar[bool] = False
    """Whether several threads may call one program at the same time."""
    validates: ClassVar[bool] = True
    """Whether it promises to refuse models that are not valid; if not, it is no fault of it to take
    one."""
    preload: ClassVar[tuple[str, ...]] = ()
    issue_form: ClassVar[IssueForm | None] = None  # where bugs are reported, for nnfuzz file
    install: ClassVar[str] = ""  # command that installs the compiler, for the message of `missing`
    distribution: ClassVar[str] = ""
    """Package of the index whose releases are the compiler's: what NAME@RELEASE installs."""
    older: ClassVar[Mapping[str, str]] = {}
    """Requirements beside the distribution, of releases before one: {"1.19": "numpy<2"}."""
    max_opset: ClassVar[int | None] = None  # newest opset its importer takes
    preferred_opset: ClassVar[int | None] = None
    domains: ClassVar[tuple[str, ...]] = ()
    """Domains of operators beside ONNX's own that its importer takes, such as "com.microsoft".
    Which operators of them it has is asked before the first test, and listed nowhere."""
    operators: ClassVar[tuple[str, ...]] = ()
    dtypes: ClassVar[tuple[str, ...]] = ()
    ranks: ClassVar[tuple[int, ...]] = ()
    """Operators of ONNX, dtypes and ranks that it takes, where it has few; nothing else is
    generated for it. Empty: campaigns ask."""
    onnx_release: ClassVar[str | None] = None
    """The release of onnx that the compiler is built with or reads models by. What later releases
    added to older opsets is generated only for compilers that say they have it."""
    environment: ClassVar[Mapping[str, str]] = {}
    """Variables for the worker, set before the compiler is imported: one thread, for example."""
    narrows: ClassVar[Mapping[str, str]] = {}
    """Types that the compiler computes in narrower ones by design, such as float64: float32. A
    mismatch that this explains is reported as accuracy given away, once, and not as wrong."""
    compiling: ClassVar[Stage] = Stage.COMPILE
    """The stage that `build` is: TRANSFORM or EXPORT where it turns the model into another one."""
    baseline: ClassVar[str] = ""
    """A level that does none of the backend's own work, with which the other levels are compared:
    where it is not right, the backend is not to blame for the other levels either."""
    collections: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    """Passes of unrelated rewrites, and options that have them: name -> ONNX operators that all of
    these have in common."""
    reads: ClassVar[str] = ONNX
    """The form that `load` gets: a serialised ONNX model, or an nnfuzz.backend.modules.TorchSource,
    for "module" and "exported". An option that means "form" lets the user choose.
    """
    loads_files: ClassVar[bool] = False
    """Whether the compiler itself reads the external data of models, so that `load` takes a model
    with a file (OnnxModel.file), and `run` of the repro scripts its path in place of bytes. Other
    backends get such models whole."""
    Options: ClassVar[type[BackendOptions]] = BackendOptions

    def __init__(self, **options: Any):
        """Raises: OptionError for an unknown option or a value of the wrong type."""
        self.options = self.parse_options(options)

    @property
    def device(self) -> str:
        """The device of the compiled model, such as "cpu" or "cuda:0"."""
        return self.declared("device") or CPU

    @property
    def release(self) -> str:
        """The release of the compiler: the first version that `versions` returns."""
        return self.declared("release") or next(iter(self.versions().values()), "")

    @property
    def form(self) -> str:
        """The form that `load` gets under these options; see `reads`."""
        return self.declared("form") or self.reads

    def target(self, level: str, release: str = "") -> Target:
        """The target of a level. Options that change the behaviour belong to the pipeline.

        release: if it is known; the compiler is not asked.
        """
        chosen = (f",{k}={v}" for k, v in self._behaviour.items())
        release = release or self.declared("release")
        return Target(self.name, release, self.device, level + "".join(chosen))

    def declared(self, name: str) -> str:
        """The value of the option that means a coordinate; "" without one."""
        option = self.meant().get(name)
        return str(getattr(self.options, option)) if option else ""

    @classmethod
    @cache
    def meant(cls) -> Mapping[str, str]:
        """Coordinates of a target -> the options that mean them."""
        return {_meaning(f): f.name for f in fields(cls.Options) if _meaning(f)}

    @classmethod
    def options_for(cls, target: Target) -> dict[str, str]:
        """The options that ask for a target's device, release and form, where there are such.

        Raises: OptionError for a device or form that no option means.
        """
        wanted = {"device": "" if target.device == CPU else target.device}
        wanted["release"] = target.release
        wanted["form"] = target.form if target.form in (MODULE, EXPORTED) else ""
        meant = cls.meant()
        if wanted["device"] and "device" not in meant:
            raise OptionError(f"backend {cls.name} has no option for a device: {target}")
        if wanted["form"] not in ("", cls.reads) and "form" not in meant:
            raise OptionError(f"backend {cls.name} does not read the form {wanted['form']}")
        return {meant[name]: value for name, value in wanted.items() if value and name in meant}

    @cached_property
    def _behaviour(self) -> dict[str, Any]:
        """Options that are not limits, mean no coordinate, and are not left at their defaults."""
        limits = {f.name for f in fields(BackendOptions)}
        own = [f for f in fields(self.options) if f.name not in limits and not _meaning(f)]
        values = {f.name: (getattr(self.options, f.name), f.default) for f in own}
        return {name: value for name, (value, default) in values.items() if value != default}

    @classmethod
    def default_levels(cls) -> tuple[str, ...]:
        """The levels that a campaign compares by default: the first and the last."""
        return tuple(dict.fromkeys((cls.levels[0], cls.levels[-1])))

    def draw_pipeline(self, rng: random.Random) -> Pipeline | None:
        """A level with a random choice of `steps` behind it, for one test case: passes and options
        of the compiler that no level has, and none that changes results by design. None: the
        backend has none. `build` and what belongs to it then get the text of a Pipeline as level,
        whole or without some of its steps.

        A function of rng and the options alone; called without the compiler.
        """
        return None

    @classmethod
    def ways(cls) -> tuple[str, ...]:
        """The steps that say how a program is called. A user may write them behind any level."""
        return (TURNS, THREADS) if cls.threads else (TURNS,)

    @classmethod
    def given_away(cls) -> tuple[str, ...]:
        """The steps that make the level DEFAULT exact; none if the backend has no such level. A
        backend with a baseline is no compiler, and has none.
        """
        return () if cls.baseline else tuple(own.step for own in cls.overrides if own.exact)

    @classmethod
    def with_default(cls) -> tuple[str, ...]:
        """The levels, with DEFAULT behind them if there is that level."""
        return (*cls.levels, DEFAULT) if cls.given_away() else cls.levels

    @classmethod
    def check_level(cls, text: str) -> None:
        """Raises: OptionError unless it is a level, or one with some of `steps` behind it."""
        pipeline = Pipeline.parse(text)
        steps = cls.given_away() if pipeline.level == DEFAULT else cls.steps
        steps = (*steps, *cls.ways())
        for kind, name, known in (
            ("level", pipeline.level, cls.with_default()),
            *(("step", step, steps) for step in pipeline.steps),
        ):
            if name not in known:
                raise OptionError(
                    f"backend {cls.name} has no {kind} {name!r}; {suggest(name, known)}"
                )

    @classmethod
    def having(cls, levels: Iterable[str]) -> tuple[str, ...]:
        """Those of some levels that the backend has, the least optimised first."""
        wanted = list(dict.fromkeys(levels))
        steps = {*cls.steps, *cls.ways()}
        drawn = [p for p in map(Pipeline.parse, wanted) if p.steps and {*p.steps} <= steps]
        kept = [str(p) for p in drawn if p.level in cls.levels]
        return (*(level for level in cls.with_default() if level in wanted), *kept)

    @classmethod
    def parse_options(cls, options: Mapping[str, Any]) -> Any:
        """Values or command-line texts -> cls.Options. Raises: OptionError."""
        positive = {f.name for f in fields(cls.Options) if f.metadata.get("positive")}
        types = typing.get_type_hints(cls.Options)
        known = [f.name for f in fields(cls.Options)]
        for name in options:
            if name not in known:
                raise OptionError(
                    f"backend {cls.name} has no option {name!r}; {suggest(name, known)}"
                )
        values = {name: _convert(cls.name, name, options[name], types[name]) for name in options}
        for name in positive & values.keys():
            if not 0 < values[name] <= MOST:
                raise OptionError(
                    f"backend {cls.name}: option {name} must be more than 0, and at most {MOST:g}"
                )
        return cls.Options(**values)

    @classmethod
    def missing(cls) -> str | None:
        """Why the backend cannot be used here, with the fix; None if it can.

        Looks for the preloaded libraries without importing them.
        """
        for module in cls.preload:
            package = module.partition(".")[0]
            if importlib.util.find_spec(package) is None:
                return f"{package} is not installed: {cls.install or f'pip install {package}'}"
        return None

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Versions of the compiler and of the libraries that decide its behaviour.

        Called first in every worker: import the compiler here.
        Raises: BackendUnavailable if the options ask for a device that is absent.
        """

    @abstractmethod
    def load(self, model: Any) -> Any:
        """Turns a model into the argument of `build`. Called once per model.

        model: in the form that `reads` declares. A serialised model is an
        nnfuzz.backend.interface.OnnxModel: bytes, whose `inputs` and `outputs` give dtype and shape
        by name. Its `file` is set only for backends with `loads_files`.
        """

    @abstractmethod
    def build(self, module: Any, level: str) -> Program:
        """Compiles for one level; called once per level, and must leave `module` as it was.

        level: one of `levels`, or what `draw_pipeline` may return, as text.

        The callable maps input names to C-contiguous arrays and returns output names to arrays; in
        place of an array there is a list of arrays for a sequence.
        """

    def fired_passes(self, module: Any, level: str) -> list[str]:
        """Names of the passes that changed the module on the way to `level`, in order, once each.

        Leaves out those that `build_without` cannot switch off. Where compilation fails, the
        passes that ran and the one that may have failed. Optional. Raises: NotImplementedError if
        they are not known.
        """
        raise NotImplementedError(f"{self.name} does not report its passes")

    def changed_passes(self, module: Any, level: str) -> list[str]:
        """Names of the passes that certainly changed the module on the way to `level`, once each.

        Unlike in `fired_passes`, one that only may have changed it is left out, and one that cannot
        be switched off is not. Optional. Raises: NotImplementedError.
        """
        raise NotImplementedError(f"{self.name} does not report what its passes do")

    def known_passes(self, module: Any, level: str) -> list[str]:
        """Names of all passes that run on the way to `level`, whether or not they change anything.

        The compiler itself names them, in its log or trace of the build, in the words of
        `changed_passes`. Optional. Raises: NotImplementedError.
        """
        raise NotImplementedError(f"{self.name} does not name the passes that it runs")

    def build_without(self, module: Any, level: str, passes: Collection[str]) -> Program:
        """The same as `build` with some passes of `fired_passes` switched off. Optional."""
        raise NotImplementedError(f"{self.name} cannot switch passes off")

    @classmethod
    def complaint(cls, error: CompilerError) -> Complaint:
        """Reads the kind, subject, operators, dtypes and location of a compiler's error.

        Findings are distinguished by it, and unsupported models from failures. The default reads
        the whole message and knows no compiler. A function of the text alone, and called without
        the compiler, so that findings can be grouped anew.
        """
        return read_complaint(error)

    @classmethod
    def console(cls, text: str) -> str | None:
        """The reason of an error, in the words that the compiler has printed; None where it has
        printed none.

        text: the output on stdout and stderr, by any process, while the stage that raised an error
        ran, and before it at this level; long outputs without their middle. The returned text takes
        the place of the exception's message before `complaint` reads it. Only for compilers whose
        exceptions do not state the reason. A function of the text alone, called
        without the compiler; never asked of a process that died.
        """
        return None

    def repro(self) -> str | None:
        """Source of `def run(model, inputs, level)` for bug reports, None if there is none.

        model: ONNX bytes, or a path (`loads_files`); inputs and result: dicts of arrays by name. It
        does what `load` and `build` do under these options, imports what it needs inside of the
        function, and needs the compiler, onnx and numpy only.
        """
        return None

    def own_repro(self) -> str | None:
        """The source of `repro`; None if there is none, or it is inherited although `load` or
        `build` is the adapter's own.
        """

        def depth(name: str) -> int:
            return next(i for i, cls in enumerate(type(self).__mro__) if name in vars(cls))

        own = depth("repro") <= min(depth("load"), depth("build"))
        return self.repro() if own else None

    def repro_foreign(self) -> str | None:
        """The same where inputs or outputs have dtypes that NumPy knows through ml_dtypes only."""
        return self.repro()

    def repro_drawn(self, pipelines: Collection[Pipeline], foreign: bool) -> str | None:
        """The same where these pipelines may be given as level, beside the levels. foreign: whether
        dtypes are as for `repro_foreign`.
        """
        return None

    def import_model(self, model: bytes | Source) -> Imported:
        """Runs `load` and reads the model's interface. Raises: InputError if it is not a model."""
        if not isinstance(model, bytes):
            return Imported(self.load(model), dict(model.inputs), model.outputs)
        known = OnnxModel(model)
        inputs, outputs = known.inputs, known.output_names
        if self.loads_files and names_files(known):
            known.file = ModelFile(known)
        packed = known.packed_inputs, known.packed_outputs, known.loose_outputs
        return Imported(self.load(known), inputs, outputs, known.file, *packed)

    def compile(self, imported: Imported, level: str, without: Collection[str] = ()) -> Executable:
        """Runs `build` and wraps its program with the checks of `Executable`.

        without: passes to switch off, with `build_without`.
        """
        self.check_level(level)
        pipeline = Pipeline.parse(level)
        built = imported.module, str(pipeline.built), without
        program = self._program(*built)
        if pipeline.way == TURNS:
            turns = itertools.cycle((program, self._program(*built)))
            return Executable(self.name, imported, lambda inputs: next(turns)(inputs))
        return Executable(self.name, imported, program, at_once=pipeline.way == THREADS)

    def _program(self, module: Any, level: str, without: Collection[str]) -> Program:
        """What `build` or `build_without` returns. Raises: AdapterError if nobody can call it."""
        own = self.build_without(module, level, without) if without else self.build(module, level)
        if not callable(own):
            kind = type(own).__name__
            raise AdapterError(f"{self.name}: build() returned {kind}, which cannot be called")
        return own


@dataclass(frozen=True)
class Executable:
    """A compiled program that checks its inputs and outputs.

    at_once: whether threads make all of several calls at the same time.
    """

    backend: str
    imported: Imported
    program: Program
    at_once: bool = False

    def __call__(self, inputs: Arrays) -> dict[str, np.ndarray]:
        """Runs the program on private copies of the inputs.

        Output dtypes and shapes are left to the oracle, since wrong ones are the compiler's doing.
        Raises: InputError, OutputError, InputChanged, or any error of the compiler.
        """
        check_inputs(self.imported.inputs, inputs)
        copies = {name: np.array(inputs[name], order="C") for name in inputs}
        outputs = self.program(packed(self.imported.packed_inputs, copies))
        for name, array in copies.items():
            if array.tobytes() != inputs[name].tobytes():
                raise InputChanged(f"the program has changed its input {name!r}")
        return self._check_outputs(outputs)

    def _check_outputs(self, outputs: Any) -> dict[str, np.ndarray]:
        if not isinstance(outputs, Mapping):
            raise OutputError(
                f"the program returned {type(outputs).__name__}, not a mapping of names to arrays"
            )
        try:
            returned = unpacked(self.imported.packed_outputs, dict(outputs.items()))
        except PackingError as error:
            raise OutputError(str(error)) from error
        wanted = self.imported.outputs
        for name in wanted:
            if returned.get(name) is None:
                raise OutputError(f"output {name!r} is missing")
        if surplus := [name for name in returned if name not in wanted]:
            raise OutputError(f"{surplus[0]!r} was returned, which is no output of the model")
        arrays: dict[str, np.ndarray] = {}
        for name in wanted:
            value, loose = returned[name], name in self.imported.loose
            if not loose and not isinstance(value, np.ndarray):
                raise OutputError(f"output {name!r} is {type(value).__name__}, not a numpy array")
            try:
                own = dict(elements(name, value) if loose else [(name, value)])
            except PackingError as error:
                raise OutputError(str(error)) from error
            for array in own.values():
                if not has_wire_form(array.dtype) or (array.dtype.kind == "U" and not loose):
                    raise OutputError(
                        f"output {name!r} has dtype {array.dtype}, which no tensor has"
                    )
            arrays |= own
        return arrays


def suggest(name: str, known: Iterable[str]) -> str:
    """The known names, and the one that was probably meant."""
    names = sorted(known)
    return f"{meant(name, names)}known: {', '.join(names) or 'none'}"


def meant(name: str, known: Iterable[str], likeness: float = 0.0) -> str:
    """A question whether one of the known names was meant; empty if none is similar.

    likeness: that a name must have, from 0 to 1; by default so much that one letter in three may be
    wrong, or one of two.
    """
    names = sorted(known)
    least = likeness or (0.5 if len(name) < 3 else 0.6)
    close = difflib.get_close_matches(name, names, 1, least)
    close = close or [other for other in names if sorted(other) == sorted(name)]
    return f"did you mean {close[0]!r}? " if close else ""


def _meaning(option: Field[Any]) -> str:
    """The coordinate of a target that an option means; "" for none."""
    means = option.metadata.get("means", "")
    return means or (option.name if option.name in ("device", "release", "form") else "")


def _convert(backend: str, name: str, value: Any, kind: Any) -> Any:
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else None
    wanted = " or ".join(map(str, choices)) if choices else kind.__name__
    try:
        if choices:
            return {str(choice): choice for choice in choices}[str(value)]
        if kind is bool:
            return {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}[
                str(value).lower()
            ]
        return kind(value)
    except (KeyError, ValueError, TypeError):
        raise OptionError(f"backend {backend}: option {name}={value!r} must be {wanted}") from None
