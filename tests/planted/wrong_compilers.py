"""Compilers with one planted fault that only other forms of a model show: functions, control flow,
constants, names, attributes, batches. Each is what such a compiler makes of an ONNX model.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

from nnfuzz.materialize.walk import bodies
from tests.planted.edits import (
    Compilers,
    Model,
    attribute,
    constants,
    inside,
    into_identity,
    makers,
    nodes,
    readers,
    set_constant,
    shapes_of,
)

COMPILERS = Compilers()


# -- functions ----------------------------------------------------------------------------------


@COMPILERS
def swaps_parameters_of_nested_functions(model: Model) -> bool:
    """Binds the first two arguments of a call inside of a function the wrong way round."""
    domains = {(f.domain, f.name) for f in model.functions}
    changed = False
    for function in model.functions:
        for node in inside(function.node):
            if (node.domain, node.op_type) in domains and len(node.input) > 1:
                node.input[0], node.input[1] = node.input[1], node.input[0]
                changed = True
    return changed


@COMPILERS
def inlines_without_renaming(model: Model) -> bool:
    """Inlines functions without fresh names: inner values take the names of the caller's."""
    names = {n for node in model.graph.node for n in node.output} | constants(model).keys()
    names |= {value.name for value in model.graph.input}
    for function in model.functions:
        for node in function.node[1:]:
            for i, name in enumerate(node.input):
                made = {n for other in function.node for n in other.output}
                outer = [v for v in function.input if v in names and v != name]
                if name in made and name in names and outer:
                    node.input[i] = outer[0]
                    return True
    return False


@COMPILERS
def caches_calls_by_name(model: Model) -> bool:
    """Takes the results of a function's first call for every other call, whatever it reads."""
    first: dict[tuple[str, str], onnx.NodeProto] = {}
    domains = {(f.domain, f.name) for f in model.functions}
    for node in model.graph.node:
        key = node.domain, node.op_type
        if key not in domains:
            continue
        if key in first and list(first[key].input) != list(node.input):
            del node.input[:]
            node.input.extend(first[key].input)
            return True
        first.setdefault(key, node)
    return False


@COMPILERS
def ignores_attributes_of_calls(model: Model) -> bool:
    """Leaves a function's attribute parameters out: the operator's default takes their place."""
    changed = False
    for function in model.functions:
        for node in inside(function.node):
            kept = [a for a in node.attribute if not a.ref_attr_name]
            if len(kept) < len(node.attribute):
                del node.attribute[:]
                node.attribute.extend(kept)
                changed = True
    return changed


# -- control flow -------------------------------------------------------------------------------


@COMPILERS
def loses_the_else_branch(model: Model) -> bool:
    """Takes the then branch of every If."""
    changed = False
    for node in nodes(model):
        if node.op_type == "If":
            then, other = attribute(node, "then_branch"), attribute(node, "else_branch")
            if then and other and then.g != other.g:
                other.g.CopyFrom(then.g)
                changed = True
    return changed


@COMPILERS
def folds_not_away(model: Model) -> bool:
    """Takes a condition for the value under its Not."""
    changed = False
    for node in nodes(model):
        made = makers(model).get(node.input[0]) if node.op_type == "If" else None
        if made is not None and made.op_type == "Not":
            node.input[0] = made.input[0]
            changed = True
    return changed


@COMPILERS
def never_enters_a_loop(model: Model) -> bool:
    """Unrolls a Loop of one trip with state to no trip: the initial state comes out."""
    changed = False
    for node in nodes(model):
        state = node.op_type == "Loop" and len(node.input) > 2
        if state and len(node.input) - 2 == len(node.output):
            body = attribute(node, "body")
            assert body is not None
            for value, given in zip(body.g.output[1:], body.g.input[2:]):
                body.g.node.append(helper.make_node("Identity", [given.name], [f"{value.name}_0"]))
                value.name = f"{value.name}_0"
            changed = True
    return changed


@COMPILERS
def scans_the_first_sequence(model: Model) -> bool:
    """Reads the first sequence of a Scan in place of the second."""
    for node in nodes(model):
        if node.op_type == "Scan" and len(node.input) > 1:
            body = attribute(node, "body")
            if body is not None and node.input[0] != node.input[1]:
                node.input[1] = node.input[0]
                return True
    return False


# -- constants ----------------------------------------------------------------------------------


@COMPILERS
def writes_to_a_shared_constant(model: Model) -> bool:
    """Folds a constant's first reader into the constant, as if no other node read it."""
    for tensor in model.graph.initializer:
        floats = tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE)
        others = readers(model, tensor.name)[1:]
        if floats and others:
            copy = model.graph.initializer.add()
            copy.CopyFrom(tensor)
            copy.name = f"{tensor.name}_written"
            set_constant(copy, 2 * numpy_helper.to_array(tensor) + 1)
            for node in others:
                for i, name in enumerate(node.input):
                    node.input[i] = copy.name if name == tensor.name else name
            return True
    return False


@COMPILERS
def forgets_default_inputs(model: Model) -> bool:
    """Begins an input that has a default with zeros."""
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.name in inputs:
            set_constant(tensor, np.zeros_like(numpy_helper.to_array(tensor)))
            return True
    return False


@COMPILERS
def reads_typed_halves_as_numbers(model: Model) -> bool:
    """Takes the bit patterns of float16 in int32_data for integers."""
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16 and tensor.int32_data:
            with np.errstate(all="ignore"):
                array = np.array(tensor.int32_data, np.float16).reshape(tuple(tensor.dims))
            set_constant(tensor, array)
            return True
    return False


@COMPILERS
def knows_one_number_of_constants(model: Model) -> bool:
    """Reads the first of value_ints or value_floats alone, and repeats it."""
    for node in nodes(model):
        for name in ("ints", "floats"):
            found = attribute(node, f"value_{name}") if node.op_type == "Constant" else None
            held = list(getattr(found, name)) if found is not None else []
            if len({*held}) > 1:
                del getattr(found, name)[:]
                getattr(found, name).extend([held[0]] * len(held))
                return True
    return False


@COMPILERS
def fills_shapes_with_zeros(model: Model) -> bool:
    """Ignores the value of ConstantOfShape."""
    changed = False
    for node in nodes(model):
        value = attribute(node, "value") if node.op_type == "ConstantOfShape" else None
        if value is not None and numpy_helper.to_array(value.t).any():
            array = np.zeros_like(numpy_helper.to_array(value.t))
            value.t.CopyFrom(numpy_helper.from_array(array))
            changed = True
    return changed


@COMPILERS
def forgets_zero_points(model: Model) -> bool:
    """Folds DequantizeLinear of a constant without its zero point."""
    held = constants(model)
    for node in nodes(model):
        quantised = node.op_type == "DequantizeLinear" and len(node.input) == 3
        constant = quantised and node.input[0] in held and node.input[2] in held
        if constant and numpy_helper.to_array(held[node.input[2]]).any():
            del node.input[2]
            return True
    return False


@COMPILERS
def folds_casts_through_float16(model: Model) -> bool:
    """Folds Cast of a constant in float16."""
    held = constants(model)
    for node in nodes(model):
        tensor = held.get(node.input[0]) if node.op_type == "Cast" else None
        if tensor is not None and tensor.data_type in (TensorProto.FLOAT, TensorProto.DOUBLE):
            array = numpy_helper.to_array(tensor)
            with np.errstate(all="ignore"):
                less = array.astype(np.float16).astype(array.dtype)
            if (less != array).any() and np.isfinite(less).all():
                set_constant(tensor, less)
                return True
    return False


# -- simplifications ------------------------------------------------------------------------------


@COMPILERS
def cancels_all_transposes(model: Model) -> bool:
    """Replaces two Transposes in a row by none, whatever their orders, where shapes allow it."""
    found = makers(model)
    shapes = shapes_of(model)
    for node in nodes(model):
        before = found.get(node.input[0]) if node.op_type == "Transpose" else None
        if before is not None and before.op_type == "Transpose":
            p, q = ([*a.ints] if (a := attribute(n, "perm")) else [] for n in (before, node))
            same = shapes.get(before.input[0]) == shapes.get(node.output[0])
            if p and q and [p[i] for i in q] != sorted(p) and same:
                into_identity(node, before.input[0])
                return True
    return False


@COMPILERS
def drops_one_reversal(model: Model) -> bool:
    """Takes a Slice with a negative step over a whole axis for nothing."""
    held = constants(model)
    for node in nodes(model):
        steps = held.get(node.input[4]) if len(node.input) == 5 else None
        constant = node.op_type == "Slice" and steps is not None
        if constant and (numpy_helper.to_array(steps) == -1).all():
            into_identity(node, node.input[0])
            return True
    return False


@COMPILERS
def slices_from_zero(model: Model) -> bool:
    """Folds Slice of Pad or Concat as if it began at 0."""
    held, found = constants(model), makers(model)
    for node in nodes(model):
        made = found.get(node.input[0]) if node.op_type == "Slice" else None
        if made is None or made.op_type not in ("Pad", "Concat"):
            continue
        starts, ends = (held.get(name) for name in node.input[1:3])
        if starts is None or ends is None:
            continue
        begin, end = numpy_helper.to_array(starts), numpy_helper.to_array(ends)
        if begin.any() and (begin >= 0).all():
            for i, array in ((1, 0 * begin), (2, end - begin)):
                tensor = model.graph.initializer.add()
                tensor.CopyFrom(numpy_helper.from_array(array, f"{node.output[0]}_{i}"))
                node.input[i] = tensor.name
            return True
    return False


@COMPILERS
def chooses_the_other_of_where(model: Model) -> bool:
    """Folds Where with a constant condition to its third input."""
    held, shapes = constants(model), shapes_of(model)
    for node in nodes(model):
        condition = held.get(node.input[0]) if node.op_type == "Where" else None
        if condition is not None and numpy_helper.to_array(condition).all():
            other, out = shapes.get(node.input[2]), shapes.get(node.output[0])
            if other is not None and out is not None and node.input[1] != node.input[2]:
                node.input[1] = node.input[2]
                if other != out:
                    array = np.array(out, np.int64)
                    name = f"{node.output[0]}_shape"
                    model.graph.initializer.append(numpy_helper.from_array(array, name))
                    node.op_type = "Expand"
                    wanted = [node.input[2], name]
                    del node.input[:]
                    node.input.extend(wanted)
                return True
    return False


@COMPILERS
def merges_nodes_of_equal_inputs(model: Model) -> bool:
    """Merges nodes of one operator and input without a look at their attributes."""
    shapes = shapes_of(model)
    seen: dict[tuple[str, ...], onnx.NodeProto] = {}
    for node in model.graph.node:
        if not node.attribute or any(bodies(node)) or len(node.output) != 1:
            continue
        key = (node.op_type, node.domain, *node.input)
        first = seen.setdefault(key, node)
        told = [sorted(a.SerializeToString() for a in n.attribute) for n in (first, node)]
        alike = shapes.get(first.output[0]) == shapes.get(node.output[0])
        if first is not node and told[0] != told[1] and alike and node.op_type != "Constant":
            into_identity(node, first.output[0])
            return True
    return False


# -- batches ------------------------------------------------------------------------------------


@COMPILERS
def takes_joined_operands_for_equal(model: Model) -> bool:
    """Reads the first operand of a Concat again in place of another one of its shape."""
    shapes = shapes_of(model)
    for node in nodes(model):
        first = node.input[0] if node.op_type == "Concat" else ""
        for i, name in enumerate(node.input[1:] if first else (), start=1):
            if name != first and shapes.get(name) == shapes.get(first) is not None:
                node.input[i] = first
                return True
    return False


@COMPILERS
def merges_slices_of_one_value(model: Model) -> bool:
    """Merges two Slices of one value whose results have one shape, wherever they begin."""
    shapes = shapes_of(model)
    seen: dict[tuple[object, ...], onnx.NodeProto] = {}
    for node in model.graph.node:
        shape = shapes.get(node.output[0])
        if node.op_type != "Slice" or shape is None or not math.prod(shape):
            continue
        first = seen.setdefault((node.input[0], shape), node)
        if list(first.input) != list(node.input):
            into_identity(node, first.output[0])
            return True
    return False


@COMPILERS
def computes_slices_by_twos(model: Model) -> bool:
    """Computes an odd last slice as the one in front of it."""
    shapes = shapes_of(model)
    for i, node in enumerate(model.graph.node):
        extent = (shapes.get(node.output[0]) or (0,))[0] if len(node.output) == 1 else 0
        if node.op_type in _BY_SLICES and extent > 2 and extent % 2:
            name = node.output[0]
            node.output[0] = f"{name}_all"
            for j, bounds in enumerate(((0, extent - 1), (extent - 2, extent - 1))):
                told = [f"{name}_{end}_{j}" for end in ("start", "end")]
                arrays = [np.array([bound], np.int64) for bound in bounds]
                model.graph.initializer.extend(map(numpy_helper.from_array, arrays, told))
                part = helper.make_node("Slice", [f"{name}_all", *told], [f"{name}_part{j}"])
                model.graph.node.insert(i + 1 + j, part)
            parts = [f"{name}_part0", f"{name}_part1"]
            model.graph.node.insert(i + 3, helper.make_node("Concat", parts, [name], axis=0))
            return True
    return False


_BY_SLICES = ("Add", "Mul", "Sub", "Relu", "Sigmoid", "Tanh", "Exp", "MatMul", "Conv", "Softmax")


# -- attributes and names -----------------------------------------------------------------------


@COMPILERS
def counts_axes_from_behind_by_one_less(model: Model) -> bool:
    """Takes axis -k of Concat, Split, Softmax or Gather for the one in front of it."""
    shapes = shapes_of(model)
    for node in nodes(model):
        axis = attribute(node, "axis")
        shape = shapes.get(node.input[0]) if node.input else None
        suited = node.op_type in ("Softmax", "LogSoftmax", "ArgMax", "Gather", "Concat", "Split")
        if suited and axis is not None and axis.i < 0 and shape and len(shape) > -axis.i:
            axis.i -= 1
            return True
    return False


@COMPILERS
def takes_absent_attributes_for_zero(model: Model) -> bool:
    """Reads 0 for a numeric attribute that is absent, whatever its default."""
    versions = {entry.domain: entry.version for entry in model.opset_import}
    for node in nodes(model):
        if node.domain or not defs.has(node.op_type):
            continue
        schema = defs.get_schema(node.op_type, versions.get("", 20))
        own = {a.name for a in node.attribute}
        for name, declared in schema.attributes.items():
            value = declared.default_value
            number = value.i if value.type == onnx.AttributeProto.INT else value.f
            known = value.type in (onnx.AttributeProto.INT, onnx.AttributeProto.FLOAT)
            if known and number and name not in own and name in _HARMLESS:
                node.attribute.append(helper.make_attribute(name, type(number)(0)))
                return True
    return False


_HARMLESS = {"alpha", "beta", "axis", "keepdims", "epsilon", "gamma"}
"""Attributes of which 0 leaves a valid model."""


def _names_as(model: Model, shown: Callable[[str], str]) -> bool:
    """Inner values that look alike become the first of them, where types are the same."""
    shapes, seen = shapes_of(model), {}
    for node in model.graph.node:
        for i, name in enumerate(node.input):
            first = seen.get(shown(name))
            if first not in (None, name) and shapes.get(first) == shapes.get(name) is not None:
                node.input[i] = first
                return True
        for name in (*node.input, *node.output):
            seen.setdefault(shown(name), name)
    return False


@COMPILERS
def ignores_case_of_names(model: Model) -> bool:
    """Takes values whose names differ in the case of letters alone for one."""
    return _names_as(model, str.lower)


@COMPILERS
def cuts_long_names(model: Model) -> bool:
    """Keeps the first 64 characters of names."""
    return _names_as(model, lambda name: name[:64])


@COMPILERS
def reads_names_as_identifiers(model: Model) -> bool:
    """Makes identifiers of names: what is no letter becomes "_", and digits at the end go."""
    return _names_as(model, lambda n: "".join(c if c.isalpha() else "_" for c in n).rstrip("_"))


@COMPILERS
def lets_siblings_share_values(model: Model) -> bool:
    """Takes an inner value of an else branch for that of the then branch of the same name."""
    for node in nodes(model):
        if node.op_type != "If":
            continue
        then, other = attribute(node, "then_branch"), attribute(node, "else_branch")
        if then is None or other is None:
            continue
        mine = {n: inner for inner in then.g.node for n in inner.output}
        for i, inner in enumerate(other.g.node):
            twin = mine.get(inner.output[0]) if len(inner.output) == 1 else None
            if twin is None or twin.op_type != inner.op_type:
                continue
            if twin.SerializeToString() != inner.SerializeToString():
                other.g.node[i].CopyFrom(twin)
                return True
    return False
