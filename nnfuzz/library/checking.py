"""Checks a user's model: do compilers compute it right, and if not, where does the computation go
wrong?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import CPU, DIRECT, ONNX, Target
from nnfuzz.base.threads import one_thread
from nnfuzz.compare.mismatch import Contradiction, Mismatch
from nnfuzz.experiment.result import Result
from nnfuzz.ir.dtypes import is_floating
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.library.case import case_from_onnx, model_proto, operator_registry
from nnfuzz.library.experiment import Experiment, check_targets
from nnfuzz.library.model_check import Computed, ModelCheck, Output, OutputState, Place
from nnfuzz.library.plugins import known_plugins
from nnfuzz.records.finding import Finding
from nnfuzz.testcase.case import NoReference, TestCase
from nnfuzz.testcase.client import ProducerError
from nnfuzz.testcase.identity import ForeignId
from nnfuzz.triage.signature import Failure

if TYPE_CHECKING:
    import onnx

    from nnfuzz.compare.criterion import Criterion
    from nnfuzz.compare.envelope import Envelope
    from nnfuzz.ir.graph import Graph
    from nnfuzz.operators.registry import OpRegistry

MESSAGE = 400  # characters of a compiler's message
PYTORCH = "PyTorch"
UNREACHED = ("it needs what only a compiler can compute, or no input decides on it",)
FUSED = "right if every value is an output: it takes a fusion with nodes in front of it"
ENDS = "the model up to this node fails in the same way, and without it does not"


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
    watch: Callable[[str], None] = lambda step: None,
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
    case = model if isinstance(model, TestCase) else case_to_check(model, inputs, seed, plugins)
    registry = operator_registry(plugins)
    targets = targets or installed_compilers(plugins)
    with Experiment(targets, plugins, isolated=False) as run:
        watch(f"running {', '.join(spec.label for spec in run.specs)}")
        result = run(case)
        exposed = _exposed(run, case) if values and case.graph else None
        examination = _Examination(run, case, registry, criterion, localise, watch, exposed)
        values_of_nodes = examination.look()
        places = [examination.place(finding) for finding in run.findings(result)]
        places += [examination.place(own, hidden=True) for own in examination.hidden(result)]
    outputs = examination.outputs(result)
    if criterion and any(own.beyond for output in outputs for own in output.computed):
        known = {target for place in places for target in place.targets}
        with Experiment(targets, plugins, tolerance=tolerance, isolated=False) as run:
            watch("looking at what is beyond your tolerance")
            again = _Examination(run, case, registry, criterion, localise, watch)
            strict = [again.place(finding) for finding in run.findings(run(case))]
        places += [
            replace(p, criterion=str(criterion)) for p in strict if known.isdisjoint(p.targets)
        ]
    return ModelCheck(
        case,
        result,
        outputs,
        values_of_nodes,
        tuple(places),
        str(criterion or ""),
        tuple(_notes(result)),
        {label(o.target): _message(o) for o in result.outcomes if o.outputs is None},
    )


def installed_compilers(plugins: Iterable[str | Path] = ()) -> list[str]:
    """The backends that are installed and compute what an ONNX model means: no optimiser, which
    is held against a level of its own, and no checker, which computes nothing.
    """
    registry = BackendRegistry.discover(known_plugins(plugins))
    classes = [registry.get(name) for name in registry.usable()]
    return [c.name for c in classes if c.reads == ONNX and not c.baseline and len(c.levels) > 1]


def case_to_check(
    model: str | Path | bytes | onnx.ModelProto,
    inputs: Mapping[str, np.ndarray] | None,
    seed: int,
    plugins: Sequence[str | Path],
) -> TestCase:
    """The test case of a model; one without a graph and without expected outputs if no output has
    a reference. Its inputs are by default normal floats and integers of 0 or 1, at sizes of 1 where
    dimensions are open.

    Raises: ModelError, OSError.
    """
    from nnfuzz.testcase.foreign import checked_interface

    read = model_proto(model)
    try:
        return case_from_onnx(read, inputs, seed=seed, plugins=plugins)
    except NoReference:
        data, rng = read.SerializeToString(), np.random.default_rng(seed)
    declared, _ = checked_interface(data, inputs)
    if inputs is None:
        shapes = {n: [size or 1 for size in spec.shape] for n, spec in declared.items()}
        drawn = {
            name: rng.standard_normal(shapes[name])
            if is_floating(np.zeros(0, spec.dtype))
            else rng.integers(0, 2, shapes[name])
            for name, spec in declared.items()
        }
        inputs = {name: array.astype(declared[name].dtype) for name, array in drawn.items()}
    versions = [entry.version for entry in read.opset_import if entry.domain in ("", "ai.onnx")]
    opset = versions[0] if versions else 1
    return TestCase(ForeignId(seed), NO_GRAPH, data, dict(inputs), {}, {}, DIRECT, opset)


def _exposed(run: Experiment, case: TestCase) -> TestCase | None:
    """The case with every value as an output; None if it cannot be written so."""
    try:
        return run.exposed(case)
    except ProducerError:
        return None


def _message(outcome: Outcome) -> str:
    whole = " ".join(f"{outcome.kind}: {outcome.message}".split())
    return whole if len(whole) <= MESSAGE else f"{whole[:MESSAGE]}..."


def _notes(result: Result) -> Iterable[str]:
    shown = result.verdict.differences if result.verdict else ()
    for event in result.events:
        if event.kind in ("fault", "undefined") and event.message not in shown:
            yield f"note: {event.message}"
    for failure in result.flaky:
        done, tried = result.repeats[failure.signature.hash]
        yield f"note: flaky, {done} of {tried} times: {failure.signature.title}"


def label(target: Target) -> str:
    """A target for people: the compiler, its device if that is not the CPU, and the pipeline."""
    parts = (target.compiler, "" if target.device == CPU else target.device, target.pipeline)
    return " ".join(filter(None, parts))


@dataclass
class _Examination:
    """Holds the results of targets against the envelopes of a case, and looks for the nodes at
    which failures begin.

    exposed: the case with every value as an output, None if there is none. exposed_result: the
    targets' result for it; values: the same, as reports have it.
    """

    run: Experiment
    case: TestCase
    registry: OpRegistry
    criterion: Criterion | None
    localise: bool
    watch: Callable[[str], None]
    exposed: TestCase | None = None
    exposed_result: Result | None = None
    values: tuple[Output, ...] = ()

    def look(self) -> tuple[Output, ...]:
        """Every target's result for every value, in topological order; () if that is not known."""
        if self.exposed is None:
            return ()
        self.watch("looking at every value")
        self.exposed_result = self.run(self.exposed)
        self.values = self.outputs(self.exposed_result, made=True)
        return self.values

    def hidden(self, result: Result) -> list[Finding]:
        """The wrong values of targets on which no output of the model is wrong: later nodes hide
        them, whose own rounding may be as large."""
        known = {label(target) for failure in result.failures for target in failure.targets}
        return [
            finding
            for finding in (self.run.findings(self.exposed_result) if self.exposed_result else ())
            if finding.failure.kind is OutcomeKind.MISMATCH
            and known.isdisjoint(map(label, finding.failure.targets))
        ]

    def place(self, finding: Finding, hidden: bool = False) -> Place:
        """The place of a failure, at the least optimised target that fails.

        hidden: whether it shows in the run with every value as an output alone.
        """
        failure = finding.failure
        if self.localise:
            self.watch(f"looking for the cause: {failure.signature.title}")
            finding = self.run.localise(finding)
        localisation = finding.localisation or {}
        place = Place(
            finding,
            tuple(label(target) for target in failure.targets),
            accused=str(localisation.get("party", "")) or finding.blame.accused,
            passes=tuple(localisation.get("passes", ())),
            evidence=tuple(localisation.get("evidence", ())),
            hidden=hidden,
        )
        if failure.kind is OutcomeKind.MISMATCH and (first := self._first(failure)):
            return self._at(place, *first, before=self._sure(first[0]))
        if self.exposed is None or failure.kind is OutcomeKind.TIMEOUT:
            return place
        self.watch(f"looking for the node: {failure.signature.title}")
        last = self._last(failure, self.exposed)
        if last is None:
            return place
        fused = failure.kind is OutcomeKind.MISMATCH
        return replace(self._at(place, *last, before=FUSED if fused else ENDS), fused=fused)

    def _first(self, failure: Failure) -> tuple[str, Mismatch] | None:
        """The first wrong value of a failure's first target where every value is an output."""
        if self.exposed_result is None:
            return None
        mine = label(failure.targets[0])
        target = next(o.target for o in self.exposed_result.outcomes if label(o.target) == mine)
        for own in self.values:
            if wrong := mismatch_of(self.exposed_result, target, own.name):
                return own.name, wrong
        return None

    def _sure(self, value: str) -> str:
        """A sentence on the inputs of the node that computes the first wrong value."""
        shares = {own.name: own.share for own in self.values}
        read = self.case.graph.makers[value].inputs
        unsure = [name for name in read if shares.get(name, 1.0) < 1]
        if not unsure:
            return "what it reads is right"
        return f"what it reads is right as far as it can be compared, {', '.join(unsure)} in part"

    def _at(self, place: Place, value: str, wrong: Mismatch | None, before: str) -> Place:
        operator, node = self._maker(value)
        return replace(place, value=value, operator=operator, node=node, wrong=wrong, before=before)

    def _last(self, failure: Failure, exposed: TestCase) -> tuple[str, Mismatch | None] | None:
        """The value that ends the shortest beginning of the model that fails in the same way, and
        how it is wrong if it is; by bisection over the number of nodes.
        """
        right, wrong = 0, len(self.case.graph.nodes)
        last = self._fails(failure, exposed, wrong)
        while last is not None and wrong - right > 1:
            middle = (right + wrong) // 2
            if ends := self._fails(failure, exposed, middle):
                wrong, last = middle, ends
            else:
                right = middle
        return last

    def _fails(
        self, failure: Failure, exposed: TestCase, count: int
    ) -> tuple[str, Mismatch | None] | None:
        """The last value of a beginning of so many nodes, or its first wrong one, if it fails as
        the model does; None if it does not. What none of its nodes reads is an output.
        """
        from nnfuzz.testcase.foreign import with_outputs

        graph = self._graph(self.case)
        nodes = graph.nodes[:count]
        read = {name for node in nodes for name in node.inputs} - {*graph.outputs}
        ends = [name for node in nodes for name in node.outputs if name not in read]
        ends = [name for name in ends if name in exposed.expected]
        cut = with_outputs(self.case, graph, ends, exposed.expected)
        if cut is None:
            return None
        done = self.run.once(cut, {failure.backend: failure.levels[:1]})
        (outcome,) = done.outcomes
        if failure.kind is not OutcomeKind.MISMATCH:
            same = (outcome.kind, outcome.stage) == (failure.kind, failure.stage)
            return (ends[-1], None) if same else None
        wrong = ((name, mismatch_of(done, outcome.target, name)) for name in ends)
        return next(((name, own) for name, own in wrong if own), None)

    def outputs(self, result: Result, made: bool = False) -> tuple[Output, ...]:
        """The targets' results for the outputs of a result's case.

        made: with the nodes that compute them, and without the reasons why elements are not
        compared.
        """
        if not result.case.graph:
            return tuple(self._unreached((), result))
        from nnfuzz.compare.edges import enclosure
        from nnfuzz.compare.losses import losses

        case = result.case
        graph, params = self._graph(case), {**case.inputs, **case.weights}
        with one_thread():
            enclosed = enclosure(graph, params, case.expected)
        bounds = enclosed.envelopes
        shares = {
            name: float(own.comparable.mean()) if own.ref.size else 1.0
            for name, own in bounds.items()
        }
        why = losses(enclosed, [n for n, share in shares.items() if share < 1 and not made])
        types = {v.name: f"{v.dtype}{list(v.shape)}" for v in case.graph.values}
        outputs = [
            Output(
                name,
                types[name],
                shares[name],
                tuple(dict.fromkeys(f"{loss.why}, at {loss.value}" for loss in why.get(name, ()))),
                tuple(self._computed(name, o, bounds[name], result) for o in result.outcomes),
                self._groups(name, bounds[name], result),
                *(self._maker(name) if made else ()),
            )
            for name in bounds
        ]
        return (*outputs, *(() if made else self._unreached(bounds, result)))

    def _graph(self, case: TestCase) -> Graph:
        from nnfuzz.ir.graph import Graph

        return Graph.of(case.graph, self.registry.get)

    def _computed(self, name: str, outcome: Outcome, bounds: Envelope, result: Result) -> Computed:
        from nnfuzz.compare.criterion import distance

        who, given = label(outcome.target), (outcome.outputs or {}).get(name)
        if outcome.outputs is None:
            return Computed(who, _fate(outcome))
        wrong = mismatch_of(result, outcome.target, name)
        contradiction = contradiction_of(result, outcome.target, name)
        beyond = None
        if self.criterion and given is not None:
            beyond = self.criterion.beyond(bounds, given)
        if wrong:
            return Computed(who, OutputState.WRONG, wrong, beyond=beyond)
        if contradiction:
            said = str(contradiction)
            return Computed(who, OutputState.CONTRADICTED, beyond=beyond, said=said)
        state = (
            OutputState.RIGHT
            if bounds.comparable.any() or not bounds.ref.size
            else OutputState.NOT_COMPARED
        )
        ulp = distance(bounds, given) if given is not None else None
        return Computed(who, state, None, ulp, beyond)

    def _groups(
        self, name: str, bounds: Envelope | None, result: Result
    ) -> tuple[tuple[str, ...], ...]:
        """Groups of targets that agree, with PyTorch where one is wrong or contradicted; () where
        all agree.
        """
        from nnfuzz.compare.groups import groups_that_agree

        ran = {label(o.target): o.outputs for o in result.outcomes if o.outputs is not None}
        arrays = {target: outputs[name] for target, outputs in ran.items() if name in outputs}
        odd = (mismatch_of, contradiction_of)
        if any(of(result, o.target, name) for o in result.outcomes for of in odd):
            arrays[PYTORCH] = result.case.expected[name]
        groups = tuple(map(tuple, groups_that_agree(arrays, bounds)))
        return groups if len(groups) > 1 else ()

    def _maker(self, value: str) -> tuple[str, str]:
        """The operator and the name of the node that computes a value, as in the model."""
        from nnfuzz.base.untrusted import parsed_model
        from nnfuzz.testcase.foreign import node_of

        node = node_of(parsed_model(self.case.model), value)
        if node is not None:
            return node.op_type, node.name
        return self.case.graph.makers[value].op, ""

    def _unreached(self, bounds: Iterable[str], result: Result) -> Iterator[Output]:
        """The outputs of the model that the reference does not compute."""
        from nnfuzz.backend.interface import read_interface

        rows = tuple(
            Computed(label(o.target), _fate(o) if o.outputs is None else OutputState.NOT_COMPARED)
            for o in result.outcomes
        )
        for name in read_interface(self.case.model)[1]:
            if name not in {*bounds, *self.case.inputs}:
                groups = self._groups(name, None, result)
                yield Output(name, "of unknown type", 0.0, UNREACHED, rows, groups)


def _fate(outcome: Outcome) -> str:
    if outcome.kind is OutcomeKind.OK:
        return "built, and not run"
    unsupported = outcome.kind is OutcomeKind.UNSUPPORTED
    return f"{'not supported' if unsupported else outcome.kind} in {outcome.stage}"


def mismatch_of(result: Result, target: Target, output: str) -> Mismatch | None:
    """How an output of a target is wrong; None if it is not."""
    mismatches = result.verdict.mismatches.get(target, ()) if result.verdict else ()
    return next((wrong for wrong in mismatches if wrong.output == output), None)


def contradiction_of(result: Result, target: Target, output: str) -> Contradiction | None:
    """How nnfuzz and onnx.reference differ where a target agrees with the latter; None if not."""
    found = result.verdict.contradictions.get(target, ()) if result.verdict else ()
    return next((own for own in found if own.output == output), None)
