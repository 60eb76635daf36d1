"""Random single-node models, many of which are legal: ONNX's checker, its strict shape inference
and a runtime accept them.

A node begins as one of onnx's own tests, or as the lowering of a solved instance of a spec, and is
changed in up to three places: an attribute gets another value of its type, or is left out; an
optional input or an output is left out; a size, a rank, a dtype or an element of a small integer
operand becomes another one. Nothing is known here of operators, but for what their schemas say.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import onnx
from nnfuzz.opspecs.contrib import DOMAIN, SCHEMAS
from onnx import helper, numpy_helper

from nnfuzz.check import runtimes as references
from nnfuzz.check.instances import SIZES, solved
from nnfuzz.check.versions import legal_opsets
from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize import protos
from nnfuzz.materialize.emit import OPSETS
from nnfuzz.materialize.walk import qualified_name
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec

CHANGES = (0, 1, 1, 1, 2, 2, 3)
"""How many places of a node are changed, by frequency."""
OPERAND = 16
"""Elements of the largest integer operand that is taken for a shape, axes or the like."""
LARGEST = 1 << 16
USUAL = 22
"""The opset of a model that imports another domain alone."""
INT, FLOAT, STRING, INTS, FLOATS, STRINGS = 2, 1, 3, 7, 6, 8
"""Types of attributes, as onnx.AttributeProto numbers them."""


@dataclass(frozen=True)
class LegalNode:
    """A node with the values of its inputs (None: left out), and whether each output is there.

    constant: per input, whether it is an initializer.
    """

    kind: str
    opset: int
    attributes: dict[str, Any]
    inputs: tuple[np.ndarray | None, ...]
    constant: tuple[bool, ...]
    outputs: tuple[bool, ...]

    @property
    def schema(self) -> onnx.defs.OpSchema:
        domain, _, name = self.kind.rpartition(".")
        node = onnx.NodeProto(op_type=name, domain=domain)
        return protos.schema_of(node, self.opset, SCHEMAS.get(self.kind))

    @property
    def given(self) -> dict[str, np.ndarray]:
        """The inputs of the model by name."""
        pairs = zip(self._names, self.inputs, self.constant, strict=True)
        return {name: a for name, a, held in pairs if a is not None and not held}

    @property
    def _names(self) -> list[str]:
        return [f"x{i}" if a is not None else "" for i, a in enumerate(self.inputs)]

    def model(self, types: Iterable[TensorType] = ()) -> onnx.ModelProto:
        """The model, with the outputs' types that strict inference finds, or these.

        Raises: RejectedByOnnx, or whatever onnx raises.
        """
        model = self.bare()
        for value, own in zip(model.graph.output, types):
            value.CopyFrom(protos.value_info(value.name, own))
        found = onnx.shape_inference.infer_shapes(
            model, check_type=True, strict_mode=True, data_prop=True
        )
        onnx.checker.check_model(found, full_check=True)
        return found

    def bare(self) -> onnx.ModelProto:
        """The model without the outputs' types, unchecked."""
        names = [f"y{i}" if there else "" for i, there in enumerate(self.outputs)]
        domain, _, kind = self.kind.rpartition(".")
        given = self._names, names, "node", None, domain
        node = helper.make_node(kind, *given, **self.attributes)
        graph = onnx.GraphProto(name="legal", node=[node])
        for name, array, held in zip(self._names, self.inputs, self.constant, strict=True):
            if array is not None and held:
                graph.initializer.append(protos.constant_proto(name, array))
            elif array is not None:
                graph.input.append(protos.value_info(name, references.type_of(array)))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name)
        return protos.model(graph, self.opset)


# -- where nodes begin ------------------------------------------------------------------------


def beginnings(
    specs: Iterable[type[OpSpec]], rng: random.Random, draws: int
) -> Iterator[LegalNode]:
    """Nodes of onnx's tests, and of lowerings of each spec to a single node."""
    from onnx.backend.test.case.node import collect_testcases

    for test in collect_testcases(None):
        if test.model is None or not test.data_sets:
            continue
        given = zip((value.name for value in test.model.graph.input), test.data_sets[0][0])
        arrays = {name: array for name, array in given if isinstance(array, np.ndarray)}
        arrays |= {t.name: numpy_helper.to_array(t) for t in test.model.graph.initializer}
        yield from _node_of(test.model, arrays)
    values = np.random.default_rng(rng.randrange(1 << 32))
    for spec in specs:
        for _ in range(draws):
            yield from _lowered(spec, rng, values)


def _lowered(
    spec: type[OpSpec], rng: random.Random, values: np.random.Generator
) -> Iterator[LegalNode]:
    signature = rng.choice(spec.signatures())
    opsets = legal_opsets(spec, signature)
    lo, hi = spec.inputs[0].ranks
    found = solved(spec, signature, rng.randint(lo, hi), Draw(rng, SIZES)) if opsets else None
    if found is None:
        return
    arrays, _ = references.inputs_for(found, values)
    model = references.one_node(found, found.op.type_transfer(*found.types), rng.choice(opsets))
    named = {f"x{i}": array for i, array in enumerate(arrays)}
    named |= {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    yield from _node_of(model, named)


def _node_of(model: onnx.ModelProto, arrays: dict[str, np.ndarray]) -> Iterator[LegalNode]:
    """The node of a model that has one, if nnfuzz knows the dtypes of what it reads."""
    imports = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    if len(model.graph.node) != 1 or not set(imports) <= {"ai.onnx", "ai.onnx.ml", DOMAIN}:
        return
    node = model.graph.node[0]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    graphs = any(isinstance(value, onnx.GraphProto) for value in attributes.values())
    read = [name for name in node.input if name]
    if graphs or not all(n in arrays and _known(arrays[n]) for n in read):
        return
    held = {t.name for t in model.graph.initializer}
    constant = tuple(bool(name) and (name in held or _operand(arrays[name])) for name in node.input)
    inputs = tuple(arrays[name] if name else None for name in node.input)
    outputs = tuple(bool(name) for name in node.output)
    opset = max(imports.get("ai.onnx", USUAL), OPSETS[0])
    yield LegalNode(qualified_name(node), opset, attributes, inputs, constant, outputs)


def _operand(array: np.ndarray) -> bool:
    return array.dtype == np.int64 and array.ndim <= 1 and array.size <= OPERAND


def _known(array: np.ndarray) -> bool:
    return array.size <= LARGEST and array.dtype in {d.numpy for d in DType}


# -- changes ----------------------------------------------------------------------------------

Change = Callable[[LegalNode, random.Random], LegalNode]


def changed(node: LegalNode, rng: random.Random) -> LegalNode:
    """A copy with up to three changes. Raises: IndexError where a change has nothing to change."""
    for _ in range(rng.choice(CHANGES)):
        node = rng.choice(KINDS)(node, rng)
    return node


def attribute(node: LegalNode, rng: random.Random) -> LegalNode:
    """Another value of one attribute."""
    name = rng.choice(sorted(node.schema.attributes))
    declared = node.schema.attributes[name]
    kind = int(declared.type.value)  # type: ignore[attr-defined]
    before = node.attributes.get(name)
    if kind == INT:
        value: Any = rng.choice((0, 1, -1, 2, -2, 3))
    elif kind == FLOAT:
        value = rng.choice((0.0, 1.0, 0.5, -1.0, 2.0))
    elif kind == STRING:
        value = rng.choice(_words(declared.description, declared.default_value.s))
    elif kind == STRINGS:
        value = list(before or ())
        value[rng.randrange(len(value))] = rng.choice(value)
    elif kind in (INTS, FLOATS) and before:
        value = list(before)
        value[rng.randrange(len(value))] = rng.choice((0, 1, -1, 2, 3))
        value = value if rng.random() < 0.7 else value[:-1]
    else:
        value = [rng.choice((0, 1, -1, 2)) for _ in range(rng.choice((1, 2, 2, 3, 4)))]
        value = [float(v) for v in value] if kind == FLOATS else value
    return replace(node, attributes={**node.attributes, name: value})


def without_attribute(node: LegalNode, rng: random.Random) -> LegalNode:
    name = rng.choice(sorted(node.attributes))
    return replace(node, attributes={k: v for k, v in node.attributes.items() if k != name})


def without_input(node: LegalNode, rng: random.Random) -> LegalNode:
    """One optional input left out; by an empty name, if others stand behind it."""
    formal = node.schema.inputs
    optional = onnx.defs.OpSchema.FormalParameterOption.Optional
    able = [
        i
        for i, a in enumerate(node.inputs)
        if a is not None and i < len(formal) and formal[i].option == optional
    ]
    at = rng.choice(able)
    inputs = [None if i == at else a for i, a in enumerate(node.inputs)]
    while inputs and inputs[-1] is None:
        inputs.pop()
    return replace(node, inputs=tuple(inputs), constant=node.constant[: len(inputs)])


def without_output(node: LegalNode, rng: random.Random) -> LegalNode:
    able = [i for i, there in enumerate(node.outputs) if there]
    at = rng.choice(able[1:])
    kept = [there and i != at for i, there in enumerate(node.outputs)]
    while not kept[-1]:
        kept.pop()
    return replace(node, outputs=tuple(kept))


def with_output(node: LegalNode, rng: random.Random) -> LegalNode:
    """One output more than there was, where the schema has one."""
    if len(node.outputs) >= len(node.schema.outputs):
        raise IndexError
    return replace(node, outputs=(*node.outputs, True))


def size(node: LegalNode, rng: random.Random) -> LegalNode:
    """Another size, of one axis or of all that have the size, in operands of integers as well."""
    shapes = [(i, a.shape) for i, a in enumerate(node.inputs) if a is not None and a.ndim]
    before = rng.choice([d for _, shape in shapes for d in shape])
    after = rng.choice((0, 1, 1, before + 1, max(1, before - 1)))
    if rng.random() < 0.4:
        at, shape = rng.choice([(i, s) for i, s in shapes if before in s])
        axis = rng.choice([i for i, d in enumerate(shape) if d == before])
        return _with(node, {at: (*shape[:axis], after, *shape[axis + 1 :])})
    resized = {i: tuple(after if d == before else d for d in shape) for i, shape in shapes}
    if rng.random() < 0.5:
        resized = {i: s for i, s in resized.items() if not node.constant[i]}
    found = _with(node, resized)
    operands = tuple(
        np.where(a == before, after, a).astype(a.dtype) if a is not None and held else a
        for a, held in zip(found.inputs, found.constant, strict=True)
    )
    return replace(found, inputs=operands) if rng.random() < 0.7 else found


def rank(node: LegalNode, rng: random.Random) -> LegalNode:
    """One axis of size 1 more or one axis less, of one input or of all inputs of its rank."""
    at = rng.choice([i for i, a in enumerate(node.inputs) if a is not None])
    array = node.inputs[at]
    assert array is not None
    others = [i for i, a in enumerate(node.inputs) if a is not None and a.ndim == array.ndim]
    shapes = {}
    for i in others if rng.random() < 0.5 else [at]:
        shape = node.inputs[i].shape  # type: ignore[union-attr]
        longer = (1, *shape) if rng.random() < 0.7 else (*shape, 1)
        shapes[i] = shape[1:] if shape and rng.random() < 0.5 else longer
    return _with(node, shapes)


def dtype(node: LegalNode, rng: random.Random) -> LegalNode:
    """Another dtype of all inputs of one type variable."""
    formal = node.schema.inputs
    named = [formal[min(i, len(formal) - 1)].type_str for i in range(len(node.inputs))]
    constraints = {c.type_param_str: c.allowed_type_strs for c in node.schema.type_constraints}
    wanted = rng.choice([n for n in named if n in constraints])
    options = [d for d in DType if _type_text(d) in constraints[wanted]]
    to = rng.choice(options).numpy
    inputs = [
        np.abs(a).astype(to) if a is not None and name == wanted else a
        for a, name in zip(node.inputs, named, strict=True)
    ]
    return replace(node, inputs=tuple(inputs))


def element(node: LegalNode, rng: random.Random) -> LegalNode:
    """Another element of an operand of integers: negative, 0, 1, large."""
    able = [
        i
        for i, a in enumerate(node.inputs)
        if a is not None and a.dtype.kind == "i" and 0 < a.size <= OPERAND
    ]
    at = rng.choice(able)
    array = np.array(node.inputs[at])
    place = rng.randrange(array.size)
    array.flat[place] = rng.choice((-1, 0, 0, 1, 2, -2, int(array.flat[place]) + 1, 100, -100))
    return replace(node, inputs=(*node.inputs[:at], array, *node.inputs[at + 1 :]))


KINDS: tuple[Change, ...] = (
    *(attribute, attribute, without_attribute, without_input, without_output, with_output),
    *(size, size, rank, dtype, element, element),
)


def _with(node: LegalNode, shapes: dict[int, tuple[int, ...]]) -> LegalNode:
    inputs = list(node.inputs)
    for at, shape in shapes.items():
        array = inputs[at]
        assert array is not None
        grown = array if array.size else np.ones(1, array.dtype)
        if np.prod(shape) <= LARGEST:
            inputs[at] = np.resize(grown, shape)
    return replace(node, inputs=tuple(inputs))


@cache
def _type_text(dtype: DType) -> str:
    return f"tensor({onnx.TensorProto.DataType.Name(dtype.onnx).lower()})"


@cache
def _words(text: str, default: bytes) -> list[str]:
    """The values of an attribute of text: what its description quotes or writes in capitals."""
    found = re.findall(r"[\"'`](\w+)[\"'`]|\b([A-Z_]{4,})\b", text)
    return sorted({default.decode(), *(one or other for one, other in found)} - {"NOTSET"})
