"""Compilers with one planted fault that shows at NaN, infinities, signed zeros, the greatest and
least numbers, or in an empty tensor. Each is such a compiler's edit of an ONNX model.
"""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from planted.edits import Compilers, Model, attribute, makers, nodes

COMPILERS = Compilers()


@COMPILERS.replacing("GreaterOrEqual")
def takes_not_less_for_greater_or_equal(x, y):
    """Computes a >= b as not a < b, which is true of NaN."""
    return [("Less", x, [f"{y}_less"]), ("Not", [f"{y}_less"], [y])]


@COMPILERS.replacing("LessOrEqual")
def takes_not_greater_for_less_or_equal(x, y):
    """Computes a <= b as not a > b, which is true of NaN."""
    return [("Greater", x, [f"{y}_more"]), ("Not", [f"{y}_more"], [y])]


@COMPILERS.replacing("IsNaN")
def knows_no_nan(x, y):
    """Folds IsNaN to false."""
    return [("Less", [x[0], x[0]], [y])]


@COMPILERS.replacing("Neg")
def negates_by_subtraction(x, y):
    """Computes -x as x - x - x, which is no infinity of an infinity."""
    return [("Sub", [x[0], x[0]], [f"{y}_0"]), ("Sub", [f"{y}_0", x[0]], [y])]


@COMPILERS.replacing("Div")
def divides_by_reciprocals(x, y):
    """Computes a / b as a * (1 / b): infinite where b is the least number, NaN for 0 / that."""
    return [("Reciprocal", [x[1]], [f"{y}_r"]), ("Mul", [x[0], f"{y}_r"], [y])]


@COMPILERS.replacing("Sqrt")
def takes_the_root_of_the_absolute_value(x, y):
    """Computes Sqrt(x) as Sqrt(|x|), a number where x is negative."""
    return [("Abs", x, [f"{y}_abs"]), ("Sqrt", [f"{y}_abs"], [y])]


@COMPILERS.replacing("Log")
def takes_the_logarithm_of_the_absolute_value(x, y):
    """Computes Log(x) as Log(|x|)."""
    return [("Abs", x, [f"{y}_abs"]), ("Log", [f"{y}_abs"], [y])]


@COMPILERS.replacing("Tanh")
def computes_tanh_by_exponentials(x, y):
    """Computes Tanh(x) as Sinh(x) / Cosh(x), which is NaN for the infinities."""
    return [
        ("Sinh", x, [f"{y}_s"]),
        ("Cosh", x, [f"{y}_c"]),
        ("Div", [f"{y}_s", f"{y}_c"], [y]),
    ]


@COMPILERS.replacing("Where")
def selects_by_multiplication(x, y):
    """Computes Where(c, a, b) as a + b - b if c, so that NaN of what is not chosen comes out."""
    return [
        ("Sub", [x[2], x[2]], [f"{y}_b0"]),
        ("Add", [x[1], f"{y}_b0"], [f"{y}_a"]),
        ("Where", [x[0], f"{y}_a", x[2]], [y]),
    ]


@COMPILERS
def sees_positive_infinities_alone(model: Model) -> bool:
    """Ignores that IsInf is to see negative infinities."""
    changed = False
    for node in nodes(model):
        told = attribute(node, "detect_negative")
        if node.op_type == "IsInf" and (told is None or told.i):
            if told is not None:
                node.attribute.remove(told)
            node.attribute.append(helper.make_attribute("detect_negative", 0))
            changed = True
    return changed


@COMPILERS
def stops_at_the_largest_integer_but_one(model: Model) -> bool:
    """Takes 2**31 - 1 and 2**63 - 1 of an input for one less."""
    changed = False
    for value in model.graph.input:
        kind = value.type.tensor_type.elem_type
        limits = {TensorProto.INT32: 2**31 - 2, TensorProto.INT64: 2**63 - 2}
        if kind in limits:
            bound, inner = f"{value.name}_bound", f"{value.name}_cut"
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            model.graph.initializer.append(
                numpy_helper.from_array(np.array(limits[kind], dtype), bound)
            )
            for node in nodes(model):
                for i, name in enumerate(node.input):
                    node.input[i] = inner if name == value.name else name
            cut = helper.make_node("Min", [value.name, bound], [inner])
            model.graph.node.insert(0, cut)
            changed = True
    return changed


@COMPILERS
def keeps_one_slice_of_nothing(model: Model) -> bool:
    """Makes a Slice that ends where it begins one element long."""
    held = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    for node in nodes(model):
        bounds = [held.get(name) for name in node.input[1:3]] if node.op_type == "Slice" else []
        if len(bounds) == 2 and all(b is not None and b.size == 1 for b in bounds):
            start, end = (int(b.reshape(-1)[0]) for b in bounds)
            if start == end:
                told = [f"{node.output[0]}_{i}" for i in range(2)]
                ends = [np.array([n], np.int64) for n in (max(start - 1, 0), max(start, 1))]
                model.graph.initializer.extend(map(numpy_helper.from_array, ends, told))
                node.input[1:3] = told
                _forget(model, makers(model))
                return True
    return False


def _forget(model: Model, made: dict[str, onnx.NodeProto]) -> None:
    """Drops declared shapes of inner values, which do not hold any more."""
    kept = [value for value in model.graph.value_info if value.name not in made]
    del model.graph.value_info[:]
    model.graph.value_info.extend(kept)
