"""The targets' results for the values of a model, compared with the error envelope of each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nnfuzz.backend.outcome import Outcome, OutcomeKind
from nnfuzz.backend.target import CPU, Target
from nnfuzz.base.threads import one_thread
from nnfuzz.compare.mismatch import Contradiction, Mismatch
from nnfuzz.experiment import result as engine
from nnfuzz.library.model_check import Computed, Output, OutputState
from nnfuzz.testcase.case import TestCase

if TYPE_CHECKING:
    from nnfuzz.compare.criterion import Criterion
    from nnfuzz.compare.envelope import Envelope
    from nnfuzz.ir.graph import Graph
    from nnfuzz.operators.registry import OpRegistry

PYTORCH = "PyTorch"
UNREACHED = ("it needs what only a compiler can compute, or no input decides on it",)


def label(target: Target) -> str:
    """A target for people: the compiler, its device if that is not the CPU, and the pipeline."""
    parts = (target.compiler, "" if target.device == CPU else target.device, target.pipeline)
    return " ".join(filter(None, parts))


@dataclass(frozen=True)
class View:
    """A test case with its envelopes, by which the outputs of targets are judged."""

    case: TestCase
    registry: OpRegistry
    criterion: Criterion | None = None

    def graph(self, case: TestCase) -> Graph:
        from nnfuzz.ir.graph import Graph

        return Graph.of(case.graph, self.registry.get)

    def outputs(self, result: engine.Result, made: bool = False) -> tuple[Output, ...]:
        """The targets' results for the outputs of a result's case.

        made: with the nodes that compute them, and without the reasons why elements are not
        compared.
        """
        if not result.case.graph:
            return tuple(self._unreached((), result))
        from nnfuzz.compare.edges import enclosure
        from nnfuzz.compare.losses import losses

        case = result.case
        graph, params = self.graph(case), {**case.inputs, **case.weights}
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
                *(self.maker(name) if made else ()),
            )
            for name in bounds
        ]
        return (*outputs, *(() if made else self._unreached(bounds, result)))

    def _computed(
        self, name: str, outcome: Outcome, bounds: Envelope, result: engine.Result
    ) -> Computed:
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
        self, name: str, bounds: Envelope | None, result: engine.Result
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

    def maker(self, value: str) -> tuple[str, str]:
        """The operator and the name of the node that computes a value, as in the model."""
        from nnfuzz.base.untrusted import parsed_model
        from nnfuzz.testcase.foreign import node_of

        node = node_of(parsed_model(self.case.model), value)
        if node is not None:
            return node.op_type, node.name
        return self.case.graph.makers[value].op, ""

    def _unreached(self, bounds: Iterable[str], result: engine.Result) -> Iterator[Output]:
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


def mismatch_of(result: engine.Result, target: Target, output: str) -> Mismatch | None:
    """How an output of a target is wrong; None if it is not."""
    mismatches = result.verdict.mismatches.get(target, ()) if result.verdict else ()
    return next((wrong for wrong in mismatches if wrong.output == output), None)


def contradiction_of(result: engine.Result, target: Target, output: str) -> Contradiction | None:
    """How nnfuzz and onnx.reference differ where a target agrees with the latter; None if not."""
    found = result.verdict.contradictions.get(target, ()) if result.verdict else ()
    return next((own for own in found if own.output == output), None)
