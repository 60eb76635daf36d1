"""Checks a user's model: do compilers compute it right, and if not, where does the computation go
wrong?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.outcome import Outcome
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import DIRECT, ONNX, Target
from nnfuzz.experiment import result as engine
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.library.case import TestCase, model_proto, operator_registry
from nnfuzz.library.experiment import Experiment, check_targets
from nnfuzz.library.model_check import ModelCheck
from nnfuzz.library.places import Places, Watch
from nnfuzz.library.plugins import known_plugins
from nnfuzz.library.values import View, label
from nnfuzz.testcase import case as testcase
from nnfuzz.testcase.case import ModelError, NoReference
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import ForeignId

if TYPE_CHECKING:
    import onnx

MESSAGE = 400  # characters of a compiler's message


def check_model(
    model: str | Path | bytes | onnx.ModelProto | TestCase,
    targets: Sequence[str | Target] = (),
    inputs: Mapping[str, np.ndarray] | None = None,
    *,
    tolerance: str = "",
    values: bool = True,
    localise: bool = True,
    seed: int = 0,
    plugins: Iterable[str | Path] = (),
    watch: Watch = lambda step: None,
) -> ModelCheck:
    """Runs a model on compilers and reports the wrong outputs of each, and where the error begins.

        check = nnfuzz.check_model("mine.onnx", ["onnxruntime", "tvm"])
        print(check)
        assert check.ok

    model: a file, its bytes, a ModelProto, or a test case. targets: as in `Experiment`; default:
    the installed compilers that read ONNX. inputs: arrays by name; default: valid ones are
    searched, a function of the model and `seed`. tolerance: a criterion of your own, such as
    "rtol=1e-3,atol=1e-5" or "ulp=4", beside the error envelope. values: whether the model runs once
    more with every value as an output, which names the first wrong node, and shows wrong values
    that later nodes hide. localise: whether the passes that are to blame are looked for. watch:
    called before each step with what it is.

    Raises: TypeError for arguments of the wrong kind, before anything runs; ModelError if the model
    cannot be imported, or has no valid inputs; CriterionError;
    what `Experiment` raises; OSError.
    """
    from nnfuzz.compare.criterion import Criterion

    check_targets(targets)
    plugins = list(plugins)
    criterion = Criterion.parse(tolerance) if tolerance else None
    watch("reading the model")
    case = model
    if not isinstance(case, TestCase):
        case = _case(case, inputs, seed, plugins)
    registry = operator_registry(plugins)
    targets = targets or installed_compilers(plugins)
    with Experiment(targets, plugins, isolated=False) as run:
        watch(f"running {', '.join(spec.label for spec in run.specs)}")
        result = run(case)
        view = View(case, registry, criterion)
        exposed = _exposed(run, view.case) if values and case.graph else None
        places = Places(run, view, localise, watch, exposed)
        values_of_nodes = places.look()
        found_places = [places.of(failure) for failure in result.failures]
        found_places += [places.of(failure, hidden=True) for failure in places.hidden(result)]
    outputs = view.outputs(result)
    if criterion and any(own.beyond for output in outputs for own in output.computed):
        known = {target for place in found_places for target in place.targets}
        with Experiment(targets, plugins, tolerance=tolerance, isolated=False) as run:
            watch("looking at what is beyond your tolerance")
            places = Places(run, view, localise, watch)
            strict = [places.of(failure) for failure in run(case).failures]
        found_places += [
            replace(p, criterion=str(criterion)) for p in strict if known.isdisjoint(p.targets)
        ]
    return ModelCheck(
        case,
        result,
        outputs,
        values_of_nodes,
        tuple(found_places),
        str(criterion or ""),
        tuple(_notes(result)),
        {label(o.target): _message(o) for o in result.outcomes if o.outputs is None},
    )


def _case(
    model: str | Path | bytes | onnx.ModelProto,
    inputs: Mapping[str, np.ndarray] | None,
    seed: int,
    plugins: Sequence[str | Path],
) -> TestCase:
    """The test case of a model; one without a graph if no output has a reference.

    Raises: ModelError, OSError.
    """
    read = model_proto(model)
    try:
        return TestCase.from_onnx(read, inputs, seed=seed, plugins=plugins)
    except NoReference:
        return TestCase.of(_unreferenced(read, inputs, seed))


def _unreferenced(
    model: onnx.ModelProto, inputs: Mapping[str, np.ndarray] | None, seed: int
) -> testcase.TestCase:
    """The test case of a model whose outputs have no reference: it has no graph and no expected
    outputs. inputs: by default floats are normal, integers 0 or 1, and open dimensions 1.

    Raises: ModelError for inputs that do not fit the model.
    """
    from nnfuzz.backend.interface import InputError, check_inputs, read_interface

    data, rng = model.SerializeToString(), np.random.default_rng(seed)
    try:
        declared, _ = read_interface(data)
        if inputs is not None:
            check_inputs(declared, inputs)
    except InputError as error:
        raise ModelError(str(error)) from error
    if inputs is None:
        shapes = {n: [size or 1 for size in spec.shape] for n, spec in declared.items()}
        drawn = {
            name: rng.standard_normal(shapes[name])
            if is_floating(np.zeros(0, spec.dtype))
            else rng.integers(0, 2, shapes[name])
            for name, spec in declared.items()
        }
        inputs = {name: array.astype(declared[name].dtype) for name, array in drawn.items()}
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = versions[0] if versions else 1
    return testcase.TestCase(ForeignId(seed), NO_GRAPH, data, dict(inputs), {}, {}, DIRECT, opset)


def installed_compilers(plugins: Iterable[str | Path] = ()) -> list[str]:
    """The backends that are installed and compute what an ONNX model means: no optimiser, which
    is held against a level of its own, and no checker, which computes nothing.
    """
    registry = BackendRegistry.discover(known_plugins(plugins))
    classes = [registry.get(name) for name in registry.usable()]
    return [c.name for c in classes if c.reads == ONNX and not c.baseline and len(c.levels) > 1]


def _exposed(run: Experiment, case: testcase.TestCase) -> testcase.TestCase | None:
    """The case with every value as an output; None if it cannot be written so."""
    try:
        return run.exposed(case)
    except ProducerError:
        return None


def _message(outcome: Outcome) -> str:
    whole = " ".join(f"{outcome.kind}: {outcome.message}".split())
    return whole if len(whole) <= MESSAGE else f"{whole[:MESSAGE]}..."


def _notes(result: engine.Result) -> Iterable[str]:
    shown = result.verdict.differences if result.verdict else ()
    for event in result.events:
        if event.kind in ("fault", "undefined") and event.message not in shown:
            yield f"note: {event.message}"
    for failure in result.flaky:
        done, tried = result.repeats[failure.signature.hash]
        yield f"note: flaky, {done} of {tried} times: {failure.signature.title}"
