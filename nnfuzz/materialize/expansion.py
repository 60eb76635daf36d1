"""Replaces a node with sub-graphs, or a function, by plain nodes that compute the same.

An If with a known condition becomes the branch that it takes; any other If becomes both branches
and a selection. A Loop or Scan is unrolled if constants determine the number of iterations. An
operator that ONNX defines by other operators becomes its function body.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper

from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import rename_in_place
from nnfuzz.materialize.facts import Facts, Unknown, expressed, tensor_type
from nnfuzz.materialize.walk import bodies

MOST = 2048
"""Most plain nodes that one node is expanded to."""
Step = Callable[[Facts, onnx.NodeProto], None]
"""Adds the types of a node's outputs to the facts. Raises: any exception if it cannot."""


def expansion(found: Facts, node: onnx.NodeProto, step: Step) -> tuple[list[onnx.NodeProto], Facts]:
    """Plain nodes that compute the outputs of a node, and the facts about all their values.

    step: infers a plain node's types. Raises: Unknown if there is no expansion; errors of `step`.
    """
    inner = replace(
        found,
        types=dict(found.types),
        constants=dict(found.constants),
        computed=set(found.computed),
        uncomputed=set(),
        failed={},
        given={},
    )
    expanding = _Expanding(inner, step, node.output[0])
    expanding.whole(node)
    return expanding.nodes, inner


class _Expanding:
    """Collects the plain nodes that replace one node. stem: prefix of fresh names."""

    def __init__(self, facts: Facts, step: Step, stem: str) -> None:
        self.facts, self.step, self.stem = facts, step, stem
        self.nodes: list[onnx.NodeProto] = []
        self._count = 0

    def whole(self, node: onnx.NodeProto) -> None:
        """Append the expansion of a node. Raises: Unknown if it cannot be expanded."""
        known = {"If": self._if, "Loop": self._loop, "Scan": self._scan}
        outputs = known.get(node.op_type, self._function)(node)
        for name, made in zip(node.output, outputs, strict=True):
            if name:
                self._plain(protos.node("Identity", [made], [name]))

    def _node(self, node: onnx.NodeProto) -> None:
        """Append a node, or its expansion if it has sub-graphs."""
        if any(bodies(node)):
            self.whole(node)
        else:
            self._plain(node)

    def _plain(self, node: onnx.NodeProto) -> None:
        if len(self.nodes) >= MOST:
            raise Unknown(f"it amounts to more than {MOST} nodes")
        self.step(self.facts, node)
        self.nodes.append(node)

    def _add(self, kind: str, *inputs: str, **attributes: object) -> str:
        made = protos.node(kind, inputs, [self._fresh(kind)])
        made.attribute.extend(protos.attribute(key, value) for key, value in attributes.items())
        self._plain(made)
        return made.output[0]

    def _constant(self, array: np.ndarray) -> str:
        name = self._fresh("constant")
        self.facts.constants[name] = array
        code = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        self.facts.types[name] = tensor_type(code, array.shape)
        return name

    def _fresh(self, name: str) -> str:
        self._count += 1
        return f"{self.stem}/{self._count}/{name}"

    def _known(self, name: str) -> np.ndarray | None:
        return self.facts.constants.get(name)

    def _body(self, graph: onnx.GraphProto, inputs: Sequence[str]) -> list[str]:
        """Append the nodes of a sub-graph that reads `inputs`; returns the names of its outputs."""
        names = dict(zip((info.name for info in graph.input), inputs, strict=True))
        for tensor in graph.initializer:
            names[tensor.name] = self._constant(numpy_helper.to_array(tensor))
        return self._nodes(graph.node, names, [info.name for info in graph.output])

    def _nodes(
        self, nodes: Sequence[onnx.NodeProto], names: dict[str, str], outputs: Sequence[str]
    ) -> list[str]:
        for node in nodes:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            names.update((name, self._fresh(name)) for name in node.output if name)
            self._node(rename_in_place(copy, names))
        return [names.get(name, name) for name in outputs]

    # -- operators ------------------------------------------------------------------------------

    def _if(self, node: onnx.NodeProto) -> list[str]:
        parts = {a.name: a.g for a in node.attribute}
        branches = [parts["then_branch"], parts["else_branch"]]
        condition = self._known(node.input[0])
        if condition is not None:
            return self._body(branches[0 if condition.item() else 1], ())
        results = [self._body(branch, ()) for branch in branches]
        type_ = expressed(self.facts.types[node.input[0]])
        scalar = type_ is not None and type_.rank == 0
        chosen = node.input[0] if scalar else self._add("Squeeze", node.input[0])
        for one, other in zip(*results, strict=True):
            a, b = (expressed(self.facts.types[name]) for name in (one, other))
            if a is None or b is None or not a.same(b):
                raise Unknown("the branches have results of different types")
        return [self._add("Where", chosen, one, other) for one, other in zip(*results)]

    def _loop(self, node: onnx.NodeProto) -> list[str]:
        body = node.attribute[0].g
        (most, going), states = (*node.input, "", "")[:2], list(node.input[2:])
        trips = MOST if not most else int(self._decided(most))
        goes_on = bool(self._decided(going)) if going else True
        collected: list[list[str]] = []
        turn = 0
        while turn < trips and goes_on:
            inputs = [self._constant(np.asarray(x)) for x in (np.int64(turn), np.bool_(goes_on))]
            condition, *results = self._body(body, [*inputs, *states])
            goes_on = bool(self._decided(condition))
            states, rows = results[: len(states)], results[len(states) :]
            collected.append([self._add("Unsqueeze", r, self._axis(0)) for r in rows])
            turn += 1
        if not turn and len(node.output) > len(states):
            raise Unknown("a result of no turns is empty")
        return [*states, *(self._stacked(parts, 0) for parts in zip(*collected))]

    def _decided(self, name: str) -> np.ndarray:
        """The single element of a constant. Raises: Unknown if there is no such constant."""
        array = self._known(name)
        if array is None or array.size != 1:
            raise Unknown(f"{name}, which decides on the turns, is not known")
        return array.reshape(())

    def _axis(self, axis: int) -> str:
        return self._constant(np.array([axis], np.int64))

    def _stacked(self, parts: Sequence[str], axis: int) -> str:
        return self._add("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]

    def _scan(self, node: onnx.NodeProto) -> list[str]:
        set_: dict[str, Any] = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        body, count = set_["body"], set_["num_scan_inputs"]
        states, parts = list(node.input[:-count]), node.input[-count:]
        outer = len(node.output) - len(states)
        axes = set_.get("scan_input_axes", [0] * count)
        made = set_.get("scan_output_axes", [0] * outer)
        backwards = set_.get("scan_input_directions", [0] * count)
        reverse = set_.get("scan_output_directions", [0] * outer)
        turns = _size(self.facts, parts[0], axes[0])
        collected = []
        for turn in range(turns):
            at = [self._constant(np.asarray(np.int64(turns - 1 - turn if b else turn)))
                  for b in backwards]  # fmt: skip
            slices = [self._add("Gather", x, i, axis=a) for x, i, a in zip(parts, at, axes)]
            results = self._body(body, [*states, *slices])
            states, rows = results[: len(states)], results[len(states) :]
            collected.append([self._add("Unsqueeze", r, self._axis(a)) for r, a in zip(rows, made)])
        stacks = [rows[::-1] if b else rows for rows, b in zip(zip(*collected), reverse)]
        return [*states, *(self._stacked(s, a) for s, a in zip(stacks, made))]

    def _function(self, node: onnx.NodeProto) -> list[str]:
        """Append the function body that ONNX defines for an operator with inputs of these types."""
        given = [name for name in dict.fromkeys(node.input) if name]
        infos = [onnx.ValueInfoProto(name=name, type=self.facts.types[name]) for name in given]
        results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.GraphProto(name="node", node=[node], input=infos, output=results)
        model = protos.typed(protos.model(graph, self.facts.opset))
        selected = [("", node.op_type)]
        inlined = inliner.inline_selected_functions(model, selected, inline_schema_functions=True)
        nodes = inlined.graph.node
        if len(nodes) == 1 and nodes[0].op_type == node.op_type:
            raise Unknown(f"{node.op_type} is no function")
        return self._nodes(nodes, {}, node.output)


def _size(facts: Facts, name: str, axis: int) -> int:
    type_ = expressed(facts.types[name])
    if type_ is None:
        raise Unknown(f"the size of {name} is not known")
    return type_.sizes[axis]
