"""Small ONNX models that take all memory or time of what walks them carelessly.

Each is a function of a number `n`, the larger the worse. They are valid, or nearly so: nothing in
them is damaged, and only what they mean is too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Bomb = Callable[[int], onnx.ModelProto]
OPSET = 18
DEEPEST = 30  # bodies: protobuf nests 100 messages, of which each body takes three
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def model(
    nodes: Iterable[onnx.NodeProto],
    constants: Iterable[onnx.TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    output: str = "y",
    dtype: int = FLOAT,
) -> onnx.ModelProto:
    """A model of one input, x: float32[2]."""
    x = helper.make_tensor_value_info("x", FLOAT, [2])
    y = helper.make_tensor_value_info(output, dtype, [None])
    graph = helper.make_graph(list(nodes), "bomb", [x], [y], list(constants))
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=8)


def ints(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def scalar(name: str, value: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, np.int64), name)


def node(kind: str, *inputs: str, to: str = "y", **attributes: object) -> onnx.NodeProto:
    return helper.make_node(kind, list(inputs), [to], **attributes)


# -- tensors that are larger than memory ----------------------------------------------------------


def followed(nodes: Iterable[onnx.NodeProto], *constants: onnx.TensorProto) -> onnx.ModelProto:
    """The value k is read by a node whose elements shape inference looks at, as it does at those of
    shapes: it then makes all elements of k.
    """
    return model([*nodes, node("Mul", "k", "k")], constants, dtype=INT)


def constant_of_shape(n: int) -> onnx.ModelProto:
    value = helper.make_tensor("v", INT, [1], [7])
    return followed([node("ConstantOfShape", "s", to="k", value=value)], ints("s", 2**n))


def range_(n: int) -> onnx.ModelProto:
    constants = [scalar("a", 0), scalar("b", 2**n), scalar("c", 1)]
    return followed([node("Range", "a", "b", "c", to="k")], *constants)


def concat(n: int) -> onnx.ModelProto:
    """Each node has twice the elements of the one before."""
    nodes = [node("Concat", f"a{i}", f"a{i}", to=f"a{i + 1}", axis=0) for i in range(n)]
    return model([*nodes, node("Identity", f"a{n}")], [ints("a0", 1, 2)], dtype=INT)


# -- computations without end ---------------------------------------------------------------------


def doubling(n: int) -> onnx.ModelProto:
    """n functions each of which calls the next one twice."""
    imports = [helper.make_opsetid("", OPSET), helper.make_opsetid("own", 1)]

    def function(i: int) -> onnx.FunctionProto:
        kind, domain = (f"f{i + 1}", "own") if i + 1 < n else ("Neg", "")
        nodes = [
            helper.make_node(kind, ["a"], ["b"], domain=domain),
            helper.make_node(kind, ["b"], ["c"], domain=domain),
        ]
        return helper.make_function("own", f"f{i}", ["a"], ["c"], nodes, imports)

    call = helper.make_node("f0", ["x"], ["y"], domain="own")
    return model([call], functions=[function(i) for i in range(n)])


def doubling_in_bodies(n: int) -> onnx.ModelProto:
    """The same with the calls in the branches of If, where fewer look."""
    made = doubling(n)
    for function in made.functions:
        branch = helper.make_graph(
            list(function.node),
            "branch",
            [],
            [helper.make_tensor_value_info("c", FLOAT, None)],
        )
        branch.node[0].input[0] = "a"
        del function.node[:]
        function.node.append(
            helper.make_node("Constant", [], ["t"], value=helper.make_tensor("t", 9, [], [True]))
        )
        function.node.append(node("If", "t", to="c", then_branch=branch, else_branch=branch))
    return made


def recursion(n: int) -> onnx.ModelProto:
    """n functions in a circle."""
    made = doubling(max(n, 1))
    for name in made.functions[-1].node:
        name.op_type, name.domain = "f0", "own"
    return made


def nested(n: int) -> onnx.ModelProto:
    """If in If, as deep as protobuf reads it."""
    out = helper.make_tensor_value_info("y", FLOAT, [2])
    made = [node("Neg", "x")]
    for _ in range(min(n, DEEPEST)):
        body = helper.make_graph(made, "body", [], [out])
        other = helper.make_graph([node("Abs", "x")], "other", [], [out])
        made = [node("If", "t", then_branch=body, else_branch=other)]
    return model(made, [_true("t")])


def _true(name: str) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(True), name)


# -- models that make no sense --------------------------------------------------------------------


def circle(n: int) -> onnx.ModelProto:
    nodes = [node("Add", f"a{i}", "x", to=f"a{(i + 1) % (n + 2)}") for i in range(n + 2)]
    return model([*nodes, node("Identity", "a0")])


def conflicting(n: int) -> onnx.ModelProto:
    """An attribute that is there twice, with different values and types."""
    made = model([node("Softmax", "x", axis=0)])
    for value in (1, 0.5, "no")[: n % 3 + 1]:
        made.graph.node[0].attribute.append(helper.make_attribute("axis", value))
    return made


def mistyped(n: int) -> onnx.ModelProto:
    """An attribute whose type is another one than its value's."""
    made = model([node("Softmax", "x", axis=0)])
    made.graph.node[0].attribute[0].type = n % 15
    return made


def long(n: int) -> onnx.ModelProto:
    """Very many nodes: large, but honest."""
    count = 2 ** min(n, 20)
    nodes = [node("Neg", f"a{i}" if i else "x", to=f"a{i + 1}") for i in range(count)]
    return model([*nodes, node("Identity", f"a{count}")])


BOMBS: dict[str, Bomb] = {
    function.__name__.strip("_"): function
    for function in (
        *(constant_of_shape, range_, concat, doubling, doubling_in_bodies, recursion),
        *(circle, conflicting),
    )
}
"""By name."""
