"""What explains a wrong result, tested: the same graph computed with one thing ignored.

A hypothesis predicts an envelope of its own. It is consistent with a run if the outputs lie in that
envelope. Small numbers fit many hypotheses, so what counts is what is consistent with the reduced
case and with other inputs that fail as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from nnfuzz.backend.numeric import CONSIDERED, NO_NAN, Deviation
from nnfuzz.compare.deviating import explains
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope
from nnfuzz.compare.mismatch import MismatchKind
from nnfuzz.compare.reference import ReferenceFault
from nnfuzz.compare.verdict import compare
from nnfuzz.ir.dtypes import DType, held, plain
from nnfuzz.ir.graph import Graph, GraphError, Node, Value, pruned
from nnfuzz.ir.types import TensorType
from nnfuzz.operators.families.composite import Composite
from nnfuzz.operators.operator import ConstraintError, OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.reduction.candidate import Explained, differences
from nnfuzz.reduction.edit import READERS
from nnfuzz.reduction.subject import Inapplicable, Subject, declaration, rebuilt, restricted
from nnfuzz.reduction.values import simpler_values
from nnfuzz.triage.keys import NAN, Claim, Hypothesis
from nnfuzz.triage.pattern import schema_defaults

Arrays = Mapping[str, np.ndarray]
Envelopes = Mapping[str, Envelope]
Altered = Collection[tuple[Hypothesis, Subject]]
"""Hypotheses, and the test case as it would be by them."""
FLOATS = frozenset(dtype.value for dtype in DType if dtype.is_float)
SMALL = 10
"""Operators of a family of which one without words stands for another: larger ones have little in
common."""
_NUMERIC = tuple(h for h in CONSIDERED if h.dtype != DType.BOOL.value and h.to != NO_NAN)
"""One operator that returns numbers for truth values shows no habit of the compiler."""
_NO_NAN = tuple(h for h in CONSIDERED if h.to == NO_NAN)
MOST_NODES = 3
"""A larger graph is not reduced: what it computes has too many explanations."""


def explained(
    subject: Subject, outputs: Arrays, held: Collection[Hypothesis] = (), written: Altered = ()
) -> Explained:
    """The hypotheses that explain the outputs: of those that held for other inputs the ones that
    still do, or all that are consistent if none are given.

    written: further hypotheses, about attributes that only the model has, not the graph.
    """
    try:
        truth = _envelopes(subject)
    except ReferenceFault:
        return Explained(dict(zip(held, held)), 0, [])
    if held:
        kept = holding(subject, truth, outputs, held, written)
    else:
        kept = consistent(subject, truth, outputs, written)
    tried = [*_alternatives(subject), *written, *_relations(subject, truth, outputs)]
    named = {hypothesis: family_of(hypothesis, subject) for hypothesis in kept}
    return Explained(named, len(tried), differences(truth, outputs), operand_family(subject))


def _envelopes(subject: Subject) -> Envelopes:
    """What correct compilers may return; at edges where the subject is. Raises: ReferenceFault."""
    return enclosure(subject.graph, subject.params, edges=subject.edges).envelopes


def consistent(
    subject: Subject, truth: Envelopes, outputs: Arrays, written: Altered = ()
) -> list[Hypothesis]:
    """The hypotheses that predict the outputs.

    Those that predict values come first: attributes and inputs in the order of nodes. Without one,
    the first narrower type counts, whose interval admits more, or how all elements of the result
    differ. None where the outputs are right.
    """
    wrong = compare(truth, outputs)
    if not wrong or len(subject.graph.nodes) > MOST_NODES:
        return []
    altered = itertools.chain(_alternatives(subject), written)
    hypotheses = [claimed for claimed, other in altered if _predicts(other, truth, outputs)]
    if not hypotheses:
        habits = (h for h in _NUMERIC if _deviates(h, subject, truth, outputs))
        hypotheses = [Hypothesis.of_habit(habit) for habit in itertools.islice(habits, 1)]
    if not hypotheses and any(_deviates(h, subject, truth, outputs) for h in _NO_NAN):
        hypotheses = [Hypothesis(Claim.IGNORES, subject.graph.nodes[-1].op.name, NAN)]
    if not hypotheses and all(m.kind is MismatchKind.DTYPE for m in wrong):
        operator = subject.graph.nodes[-1].op.name
        beside = ", with wrong values" if _wrong_beside(truth, outputs) else ""
        forms = (f"{m.actual} for {m.expected}{beside}" for m in wrong)
        hypotheses = [Hypothesis(Claim.RETURNS, operator, form) for form in forms]
    if not hypotheses:
        relations = _relations(subject, truth, outputs)
        hypotheses = [claimed for claimed, other in relations if not compare(other, outputs)]
    return list(dict.fromkeys(hypotheses))


def _wrong_beside(truth: Envelopes, outputs: Arrays) -> bool:
    """Whether outputs of other dtypes are wrong in the right ones, too."""
    there = {n: x.astype(truth[n].dtype.numpy) for n, x in outputs.items() if n in truth}
    return bool(compare(truth, there))


def family_of(hypothesis: Hypothesis, subject: Subject) -> Hypothesis:
    """The claim that operators share whose code has one cause, such as for "Softmax ignores axis".

    It is about the class that declares an attribute; about the class that takes any number of
    operands where these are ignored; about the class that says what shape a result has where axes
    of size 1 are other ones. Other hypotheses stay.
    """
    nodes = subject.graph.nodes
    if hypothesis.claim is Claim.AXES:
        classes = type(nodes[-1].op).__mro__
        shaping = next(cls for cls in classes if "type_transfer" in vars(cls))
        own = shaping is classes[0]
        return hypothesis if own else replace(hypothesis, subject=shaping.__name__)
    if hypothesis.claim is not Claim.IGNORES:
        return hypothesis
    if hypothesis.detail.startswith("input "):
        later = int(hypothesis.detail.removeprefix("input ")) > 1
        return (operand_family(subject) if later else None) or hypothesis
    node = next(node for node in nodes if node.op.name == hypothesis.subject)
    return replace(hypothesis, subject=_declaring(type(node.op), hypothesis.detail))


def small_families(operator: str, registry: OpRegistry, attribute: str = "") -> list[str]:
    """The classes from which the spec of an operator and few others come: these are computed in the
    same way. None for an operator that the registry does not have.

    attribute: the class that declares it is the only family, if there is one.
    """
    if operator not in registry:
        return []
    if attribute in registry.get(operator).declared:
        return [_declaring(registry.get(operator), attribute)]
    specs = registry.specs()
    sizes = {
        cls.__name__: sum(issubclass(other, cls) for other in specs)
        for cls in registry.get(operator).__mro__
        if cls is not Composite  # a way to say what is computed
    }
    return [name for name, size in sizes.items() if 1 < size <= SMALL]


def operand_family(subject: Subject) -> Hypothesis | None:
    """What the operators have in common that take any number of operands, for the only one of a
    graph that has more than two; None for another.
    """
    (node, *others) = subject.graph.nodes
    if others or len(node.inputs) < 3 or node.op.variadic is None:
        return None
    classes = [cls for cls in type(node.op).__mro__ if vars(cls).get("variadic")]
    return Hypothesis(Claim.MANY_OPERANDS, classes[-1].__name__) if classes else None


def _declaring(spec: type[OpSpec], attribute: str) -> str:
    classes = [cls for cls in spec.__mro__ if attribute in getattr(cls, "declared", ())]
    return classes[-1].__name__ if len(classes) > 1 else spec.name


def holding(
    subject: Subject,
    truth: Envelopes,
    outputs: Arrays,
    held: Collection[Hypothesis],
    written: Altered = (),
) -> list[Hypothesis]:
    """The hypotheses among `held` that further outputs do not refute.

    Right outputs refute those that predict others. Claims on how the elements of a result differ
    are about wrong outputs only.
    """
    if compare(truth, outputs):
        still_consistent = consistent(subject, truth, outputs, written)
        return [hypothesis for hypothesis in held if hypothesis in still_consistent]
    try:
        every = itertools.chain(_alternatives(subject), written)
        altered = [(claimed, other) for claimed, other in every if claimed in held]
        admitted = {claimed for claimed, other in altered if not _differs(other, outputs)}
    except ReferenceFault:
        return list(held)
    refuted = {claimed for claimed, _ in altered} - admitted
    narrow = {Hypothesis.of_habit(h): DType(h.to) for h in _NUMERIC if h.to in FLOATS}
    finer = {claimed for claimed, to in narrow.items() if not _all_held(truth, outputs, to)}
    return [hypothesis for hypothesis in held if hypothesis not in refuted | finer]


def _all_held(truth: Envelopes, outputs: Arrays, dtype: DType) -> bool:
    """Whether a dtype holds all floats of the results."""
    return all(held(outputs[n], dtype).all() for n, e in truth.items() if e.dtype.is_float)


def _relations(
    subject: Subject, truth: Envelopes, outputs: Arrays
) -> Iterator[tuple[Hypothesis, Envelopes]]:
    """What the only result may be instead: 0, another sign, one more or less, what an operator
    reads, in another shape, ...
    """
    if len(truth) != 1:
        return
    ((name, right),) = truth.items()
    operator = subject.graph.nodes[-1].op.name

    def moved(change: Callable[[np.ndarray], np.ndarray]) -> Envelopes:
        with np.errstate(all="ignore"):
            ends = [change(end) for end in (right.ref, right.lo, right.hi)]
        lo, hi = np.minimum(ends[1], ends[2]), np.maximum(ends[1], ends[2])
        return {name: Envelope(right.dtype, ends[0], lo, hi, right.any)}

    if not right.dtype.is_bool:
        yield Hypothesis(Claim.RETURNS, operator, "0"), moved(np.zeros_like)
        yield Hypothesis(Claim.OFF, operator, "one too large"), moved(lambda end: end + 1)
        yield Hypothesis(Claim.OFF, operator, "one too small"), moved(lambda end: end - 1)
        yield Hypothesis(Claim.SIGN, operator), moved(np.negative)
    for detail, value in _entering(subject):
        if DType.of(value.dtype) is right.dtype:
            same = plain(value).astype(right.ref.dtype)
            none = np.zeros(same.shape, bool)
            other = Envelope(right.dtype, same, same, same, none)
            yield Hypothesis(Claim.RETURNS, operator, detail), {name: other}
    for claim, detail, form in _forms(
        right.ref.shape, outputs[name].shape if name in outputs else ()
    ):
        ends = [form(x) for x in (right.ref, right.lo, right.hi, right.any)]
        yield Hypothesis(claim, operator, detail), {name: Envelope(right.dtype, *ends)}


def _entering(subject: Subject) -> Iterator[tuple[str, np.ndarray]]:
    """Yields the values that a compiler may return if it leaves out the last operators, each behind
    the words for it: what the operators before the last one read, then what the last one reads.
    """
    *before, last = subject.graph.nodes
    for node in before:
        for i, given in enumerate(node.inputs):
            if given not in subject.graph.weights:
                yield f"input {i} of the {node.op.name} before it", subject.values[given]
    for i, given in enumerate(last.inputs):
        yield f"input {i}", subject.values[given]


def _forms(
    right: tuple[int, ...], actual: tuple[int, ...]
) -> Iterator[tuple[Claim, str, Callable[[np.ndarray], np.ndarray]]]:
    """How the same numbers may be arranged instead: ways to do it, in words."""
    if len(right) > 1:
        yield Claim.RETURNS, "its result transposed", lambda x: x.swapaxes(-1, -2)
    if actual != right and [d for d in actual if d != 1] == [d for d in right if d != 1]:
        lost = len(right) - len(actual)
        way = "loses" if lost > 0 else "adds" if lost else "moves"
        yield Claim.AXES, way, lambda x: x.reshape(actual)


def _deviates(habit: Deviation, subject: Subject, truth: Envelopes, outputs: Arrays) -> bool:
    there = {value.type.dtype.value for value in subject.graph.values.values()}
    visible = habit.to not in FLOATS or _shows(habit, subject, truth, outputs)
    try:
        return (
            visible
            and habit.dtype in there
            and explains([habit], subject.graph, subject.params, outputs)
        )
    except ReferenceFault:
        return False


def _shows(habit: Deviation, subject: Subject, truth: Envelopes, outputs: Arrays) -> bool:
    """Whether a result has only what the narrower type holds, where the right one has more and is
    in its range: an interval that is as wide as the type is coarse admits many a wrong value.
    """
    dtype = DType(habit.to)
    most = dtype.limits[1]
    return any(
        held(outputs[name], dtype).all()
        and not held(right.ref, dtype).all()
        and bool((np.abs(right.ref) <= most).all())
        for name, right in truth.items()
        if name in outputs and right.dtype is DType(habit.dtype)
    )


def _predicts(other: Subject, truth: Envelopes, outputs: Arrays) -> bool:
    """Whether an altered graph yields the outputs, and something else than the true one."""
    try:
        predicted = _envelopes(other)
        if predicted.keys() != truth.keys() or compare(predicted, outputs):
            return False
    except ReferenceFault:
        return False
    wrong = [m.output for m in compare(truth, outputs)]
    return all(bool(predicted[name].comparable.any()) for name in wrong)


def _differs(other: Subject, outputs: Arrays) -> bool:
    """Whether an altered graph yields something else. Raises: ReferenceFault."""
    predicted = _envelopes(other)
    return predicted.keys() != outputs.keys() or bool(compare(predicted, outputs))


def _alternatives(subject: Subject) -> Iterator[tuple[Hypothesis, Subject]]:
    """The graph with one attribute or input of one node ignored."""
    for node in subject.graph.nodes:
        usual = schema_defaults(node.op.name)
        for name, value in node.op.attributes.items():
            for other in _others(node.op, name, value, usual.get(name)):
                op = type(node.op)(**{**node.op.attributes, name: other})
                claimed = Hypothesis(Claim.IGNORES, node.op.name, name)
                yield from _made(claimed, subject, node, op, node.inputs)
        for i in range(len(node.inputs)):
            fewer = node.op.without_input(i)
            if fewer is not None:
                rest = (*node.inputs[:i], *node.inputs[i + 1 :])
                claimed = Hypothesis(Claim.IGNORES, node.op.name, f"input {i}")
                yield from _made(claimed, subject, node, fewer, rest)


def _others(op: OpSpec, name: str, value: Any, usual: object) -> list[object]:
    """What an attribute may be taken for: its default in ONNX, the other side of a switch, or
    something simpler.
    """
    default = [] if usual is None or usual == value else [usual]
    options = getattr(declaration(op, name), "options", None)
    switched_off = value == 0 and isinstance(options, tuple) and {*options} == {0, 1}
    others = [1] if switched_off else simpler_values(op, name, value)
    return default + [v for v in others if v != usual]


def _made(
    claimed: Hypothesis, subject: Subject, node: Node, op: OpSpec, inputs: tuple[str, ...]
) -> Iterator[tuple[Hypothesis, Subject]]:
    """The subject with another node, if the graph admits it."""
    graph = subject.graph
    nodes = [Node(op, inputs, node.outputs) if n is node else n for n in graph.nodes]
    try:
        made = rebuilt(Graph(graph.values, nodes, graph.inputs, graph.weights, graph.outputs), {})
    except (Inapplicable, GraphError, ConstraintError):
        return
    yield claimed, restricted(subject, made, {})


def read_by(subject: Subject, name: str, reader: str, registry: OpRegistry) -> Subject:
    """The part of the graph that computes a value, followed by one of READERS: if the failure
    stays, the operator that read the value is not needed for it.

    Raises: Inapplicable.
    """
    graph, type_, equal = subject.graph, subject.graph.type(name), reader == READERS[0]
    right, out = f"{name}_right", f"{name}_read"
    wide = DType.FLOAT64 if type_.dtype.is_float else DType.INT64
    dtype = DType.BOOL if equal else wide
    if dtype is type_.dtype:
        raise Inapplicable(f"{name} is of the widest dtype")
    if reader not in registry:
        raise Inapplicable(f"there is no {reader}")
    params = {right: subject.values[name]} if equal else {}
    op = registry.get(reader)(**({} if equal else {"to": dtype}))
    values = {**graph.values, out: Value(out, TensorType(dtype, type_.shape))}
    values |= {given: Value(given, type_) for given in params}
    nodes = [*graph.nodes, Node(op, (name, *params), (out,))]
    made = pruned(values, nodes, [*graph.inputs, *params], graph.weights, [out])
    return restricted(subject, made, params)
