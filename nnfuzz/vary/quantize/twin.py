"""A variation of a graph with values: its quantised twin.

The twin computes the same with small integers, in the styles in which quantised models are
deployed. As in a quantiser that runs a model on examples, scales and zero points come from the
values that the twin computes. Its nodes are ordinary ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from nnfuzz.inputs.search import Found
from nnfuzz.ir.graph import Graph, Node, pruned
from nnfuzz.ir.support_key import is_avoided
from nnfuzz.materialize.opsets import is_called
from nnfuzz.operators.carriers import array
from nnfuzz.operators.motif import Misfit
from nnfuzz.vary.quantize.codes import Values
from nnfuzz.vary.quantize.draft import Draft, Form
from nnfuzz.vary.quantize.integers import dynamically, on_codes
from nnfuzz.vary.quantize.pairs import with_pairs
from nnfuzz.vary.variation import CaseDraft, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.generate.catalog import Catalog
    from nnfuzz.testcase.case import CaseConfig

Writer = Callable[[Values, Node], None]
WRITERS: Mapping[str, Writer] = {"pairs": with_pairs, "integers": on_codes, "dynamic": dynamically}
SHARES = {"pairs": 0.6, "integers": 0.28, "dynamic": 0.12}
"""Frequency of each style, which most operators of a twin share."""
STRAYS = 0.06
"""Probability that an operator has another style than the others."""
USUAL = frozenset(
    "Conv ConvTranspose MatMul Gemm Add Sub Mul Div Relu Clip LeakyRelu Sigmoid Tanh HardSigmoid "
    "HardSwish Softmax AveragePool MaxPool GlobalAveragePool GlobalMaxPool Concat Split Resize Pad "
    "Where ReduceMean Reshape Transpose Squeeze Unsqueeze Flatten Slice Gather".split()
)
"""Operators that quantisers put pairs around; others are quantised less often."""
OFTEN, RARELY = 0.9, 0.25
EVERYWHERE = 0.7
"""Probability that all readers of a quantised value read the dequantised one."""


@dataclass(frozen=True, eq=False)
class Twin:
    """A quantised graph. style: of most operators. values: tensors of all names."""

    graph: Graph
    style: str
    values: Mapping[str, Tensor]


class Quantised(Variation):
    """The graph is replaced by its quantised twin."""

    name, setting = "quantize", "quantize"

    def __init__(self, config: CaseConfig, catalog: Catalog) -> None:
        super().__init__(config, catalog)
        self.avoid = frozenset(config.avoid)

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return bool(config.quantize) and not config.edges and super().applies(config)

    def valued(self, test: VariedTest, draft: CaseDraft) -> CaseDraft:
        rng = test.stream(self.name)
        if is_called(draft.exporter) or rng.random() >= self.share:
            return draft
        form = Form(test.catalog, self.config.exporter, self.config.opset, self.avoid)
        twin = quantised_twin(draft.graph, draft.found.values, form, rng)
        if twin is None:
            return draft
        test.check(twin.graph)
        found = _with_values(draft.found, twin)
        return replace(draft, graph=twin.graph, found=found).named(f"{self.name}:{twin.style}")


def _with_values(searched: Found, twin: Twin) -> Found:
    """The result of the input search, with the twin's weights and values."""
    graph = twin.graph
    arrays = {n: array(x, graph.type(n).dtype) for n, x in twin.values.items()}
    parts = (graph.inputs, graph.weights, graph.outputs)
    inputs, weights, outputs = ({n: arrays[n] for n in names} for names in parts)
    values = dict(twin.values)
    return replace(searched, inputs=inputs, weights=weights, outputs=outputs, values=values)


def quantised_twin(
    graph: Graph, values: Mapping[str, Tensor], form: Form, rng: random.Random
) -> Twin | None:
    """The twin of a concrete graph; None if nothing in it can be quantised.

    values: tensors of at least its inputs and weights. form: admitted operators.
    """
    drawn = rng.choices(list(SHARES), list(SHARES.values()))[0]
    for style, rarely in ((drawn, RARELY), ("pairs", OFTEN)):
        try:
            with torch.no_grad():
                held = _drafted(graph, values, form, rng, (style, rarely))
                found = _finished(graph, held)
        except Misfit:  # rounding made a value that a later operator does not admit
            continue
        if not _same_operators(found, graph):
            made = Twin(found, style, {name: held.draft.values[name] for name in found.values})
            return None if is_avoided(found.view(), form.avoid) else made
    return None


def _same_operators(graph: Graph, other: Graph) -> bool:
    return [node.op for node in graph.nodes] == [node.op for node in other.nodes]


def _drafted(
    graph: Graph,
    given: Mapping[str, Tensor],
    form: Form,
    rng: random.Random,
    style: tuple[str, float],
) -> Values:
    """The twin's values, and its draft with one or several nodes for each node. Raises: Misfit.

    given: tensors of inputs and weights. style: style of most operators, and probability of
    quantising operators that are not in USUAL.
    """
    draft = Draft(form)
    for name in (*graph.inputs, *graph.weights):
        draft.graph.values[name] = graph.values[name]
        draft.values[name] = given[name]
    draft.graph.inputs, draft.graph.weights = list(graph.inputs), list(graph.weights)
    draft.graph.prescribed = dict(graph.prescribed)
    values = Values(draft, rng, graph.weights)
    for name in (*graph.inputs, *graph.weights):
        values.hold(name)
    everywhere = rng.random() < EVERYWHERE
    for node in graph.nodes:
        _add(values, node, style, everywhere)
    return values


def _add(values: Values, node: Node, style: tuple[str, float], everywhere: bool) -> None:
    """Add an operator in its style, else with pairs, else unquantised. Raises: Misfit."""
    rng = values.rng
    for way in _ways(rng, node, *style):
        try:
            return WRITERS[way](values, node)
        except Misfit:
            continue
    for read in ((values.read if everywhere else values.floats), values.floats):
        try:
            values.draft.copy(node, [read(name) for name in node.inputs])
            break
        except Misfit:
            if read == values.floats:
                raise
    for name in node.outputs:
        values.hold(name)


def _ways(rng: random.Random, node: Node, style: str, rarely: float) -> list[str]:
    """The styles to try for an operator, in order; empty if it is not quantised."""
    if rng.random() >= (OFTEN if node.op.name in USUAL else rarely):
        return []
    stray = rng.random() < STRAYS
    first = rng.choice(list(WRITERS)) if stray else style
    return [first] if first == "dynamic" else list(dict.fromkeys((first, "pairs")))


def _finished(graph: Graph, values: Values) -> Graph:
    """The drafted graph without nodes that its outputs do not need. Raises: Misfit."""
    draft = values.draft
    outputs = [values.read(name) for name in graph.outputs]
    whole = draft.graph
    found = pruned(whole.values, whole.nodes, whole.inputs, whole.weights, outputs)
    found.prescribed = {n: ends for n, ends in whole.prescribed.items() if n in found.values}
    return found
