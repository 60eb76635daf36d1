"""A compiler that refuses every model, each fault by a check of its own, and has one planted lapse.

As a plug-in: -b careless,lapse=cycle-crash --plugin planted/careless.py. A lapse is a check
that, where it would refuse, does something else. The checks are those of an importer: they look at
the model and know nothing of who made it.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import AttributeProto, ModelProto, TensorProto, defs

sys.path.append(str(Path(__file__).parent.parent))

from nnfuzz.backend.contract import Backend, BackendOptions, Program, option
from nnfuzz.backend.registry import backend
from planted.manners import act

Check = Callable[[ModelProto], str]
"""What is wrong with a model; "" if it is not for this check to say."""
WIDTHS = {1: 4, 2: 1, 3: 1, 4: 2, 5: 2, 6: 4, 7: 8, 9: 1, 10: 2, 11: 8, 12: 4, 13: 8, 16: 2}


class RefusedError(ValueError):
    """This compiler's own answer to a model that is none."""


def _defined(model: ModelProto) -> set[str]:
    graph = model.graph
    return {v.name for v in (*graph.input, *graph.initializer)} | {
        t.values.name for t in graph.sparse_initializer
    }


def cycle(model: ModelProto) -> str:
    makers = {name: node for node in model.graph.node for name in node.output}
    done: dict[int, bool] = {}

    def circular(node: onnx.NodeProto) -> bool:
        if id(node) in done:
            return done[id(node)]
        done[id(node)] = True  # under way
        found = any(circular(makers[n]) for n in node.input if n in makers)
        done[id(node)] = found
        return found

    return "a cycle" if any(map(circular, model.graph.node)) else ""


def undefined(model: ModelProto) -> str:
    known = _defined(model) | {n for node in model.graph.node for n in node.output} | {""}
    reads = {n for node in model.graph.node for n in node.input}
    return "an undefined name" if reads - known else ""


def lost_output(model: ModelProto) -> str:
    known = _defined(model) | {n for node in model.graph.node for n in node.output}
    return "an undefined output" if {o.name for o in model.graph.output} - known else ""


def duplicates(model: ModelProto) -> str:
    graph = model.graph
    names = Counter(n for node in graph.node for n in node.output if n)
    names.update(v.name for v in graph.input)
    names.update(t.name for t in graph.initializer)
    return "a name that is defined twice" if any(n > 1 for n in names.values()) else ""


def _schemas(model: ModelProto) -> list[tuple[onnx.NodeProto, defs.OpSchema]]:
    version = next((o.version for o in model.opset_import if not o.domain), 0)
    plain = [n for n in model.graph.node if not n.domain]
    version = min(version, defs.onnx_opset_version())
    found = [n for n in plain if version > 0 and defs.has(n.op_type, version, "")]
    return [(n, defs.get_schema(n.op_type, version, "")) for n in found]


def arity(model: ModelProto) -> str:
    for node, schema in _schemas(model):
        if not schema.min_input <= len(node.input) <= schema.max_input:
            return f"{node.op_type} with {len(node.input)} inputs"
    return ""


def required(model: ModelProto) -> str:
    for node, schema in _schemas(model):
        needed = {n for n, a in schema.attributes.items() if a.required}
        if needed - {a.name for a in node.attribute}:
            return f"{node.op_type} lacks an attribute"
    return ""


def strange(model: ModelProto) -> str:
    for node, schema in _schemas(model):
        if any(a.name not in schema.attributes for a in node.attribute):
            return f"{node.op_type} has a strange attribute"
    return ""


def typed(model: ModelProto) -> str:
    for node, schema in _schemas(model):
        for a in node.attribute:
            if a.name in schema.attributes and a.type != int(schema.attributes[a.name].type):  # type: ignore[call-overload]
                return f"attribute {a.name} has the wrong type"
    return ""


def axes(model: ModelProto) -> str:
    shapes = {t.name: len(t.dims) for t in model.graph.initializer}
    shapes |= {v.name: len(v.type.tensor_type.shape.dim) for v in model.graph.input}
    for node, _ in _schemas(model):
        rank = shapes.get(node.input[0]) if node.input else None
        for a in node.attribute:
            given = list(a.ints) if a.type == AttributeProto.INTS else [a.i]
            named = a.name in ("axis", "axes") and rank is not None
            if named and any(not -rank - 1 <= i <= rank + 1 for i in given):
                return f"axis {given}"
    return ""


def sizes(model: ModelProto) -> str:
    for t in model.graph.initializer:
        width = WIDTHS.get(t.data_type)
        if t.HasField("raw_data") and width and len(t.raw_data) != width * math.prod(t.dims):
            return f"{t.name} has {len(t.raw_data)} bytes"
    return ""


def negative(model: ModelProto) -> str:
    values = [*model.graph.input, *model.graph.output]
    declared = [d.dim_value for v in values for d in v.type.tensor_type.shape.dim]
    held = [d for t in model.graph.initializer for d in t.dims]
    return "a negative dimension" if any(d < 0 for d in (*declared, *held)) else ""


def dtypes(model: ModelProto) -> str:
    values = [*model.graph.input, *model.graph.output]
    numbers = [v.type.tensor_type.elem_type for v in values if v.type.HasField("tensor_type")]
    numbers += [t.data_type for t in model.graph.initializer]
    return "a strange dtype" if any(n not in range(1, 24) for n in numbers) else ""


def unknown(model: ModelProto) -> str:
    own = {(f.domain, f.name) for f in model.functions}
    for node in model.graph.node:
        known = not node.domain and defs.has(node.op_type)
        if not known and (node.domain, node.op_type) not in own:
            return f"unknown operator {node.op_type}"
    return ""


def versions(model: ModelProto) -> str:
    found = [o.version for o in model.opset_import if not o.domain]
    return "" if found and 0 < found[0] <= defs.onnx_opset_version() else "a strange opset"


def outside(model: ModelProto) -> str:
    for t in model.graph.initializer:
        places = [e.value for e in t.external_data if e.key == "location"]
        if t.data_location == TensorProto.EXTERNAL and not any(places):
            return "external data nowhere"
        if any(p.startswith("/") or ".." in p for p in places):
            return "external data outside"
    return ""


def recursion(model: ModelProto) -> str:
    calls = {(f.domain, f.name): {(n.domain, n.op_type) for n in f.node} for f in model.functions}
    reached, new = set(calls), True
    while new:  # takes away what calls nothing that is left
        new = False
        for name in sorted(reached):
            if not calls[name] & reached:
                reached.discard(name)
                new = True
    return "a recursive function" if reached else ""


def bodies(model: ModelProto) -> str:
    for node in model.graph.node:
        graphs = [a.g for a in node.attribute if a.HasField("g")]
        if node.op_type == "If" and any(len(g.output) != len(node.output) for g in graphs):
            return "a branch with other outputs"
    return ""


def graphless(model: ModelProto) -> str:
    return "" if model.HasField("graph") and model.graph.output else "no graph"


CHECKS: dict[str, Check] = {
    "graph": graphless,
    "opset": versions,
    "operator": unknown,
    "cycle": cycle,
    "name": undefined,
    "output": lost_output,
    "duplicate": duplicates,
    "arity": arity,
    "attribute": required,
    "strange": strange,
    "typed": typed,
    "axis": axes,
    "size": sizes,
    "negative": negative,
    "dtype": dtypes,
    "external": outside,
    "function": recursion,
    "body": bodies,
}


@dataclass(frozen=True)
class Lapse:
    """A planted fault: where `check` would refuse, `manner` happens. outcome: what it ends in."""

    check: str
    manner: str
    outcome: str

    @property
    def name(self) -> str:
        return f"{self.check}-{self.manner}"


_OUTCOMES = {
    "accepts": "accepted",
    "crash": "crash",
    "slip": "exception",
    "assertion": "exception",
    "hang": "timeout",
    "memory": "crash",
}
_HOW = {
    "accepts": tuple(CHECKS),
    "crash": ("cycle", "arity", "negative", "body"),
    "slip": ("attribute", "typed", "dtype", "name", "graph"),
    "assertion": ("arity", "size", "output"),
    "hang": ("function", "opset"),
    "memory": ("size",),
}
LAPSES = tuple(
    Lapse(check, manner, _OUTCOMES[manner]) for manner, checks in _HOW.items() for check in checks
)


@backend
class Careless(Backend):
    name = "careless"
    levels = ("O0",)
    preload = ("onnx", "onnx.defs")

    @dataclass(frozen=True, kw_only=True)
    class Options(BackendOptions):
        lapse: str = option("", "the planted lapse: CHECK-MANNER")

    def versions(self) -> dict[str, str]:
        return {"careless": "1"}

    def load(self, model: bytes) -> ModelProto:
        try:
            return ModelProto.FromString(model)
        except DecodeError as error:
            raise RefusedError(f"no message: {error}") from error

    def build(self, module: ModelProto, level: str) -> Program:
        check, _, manner = self.options.lapse.partition("-")
        if check and (told := CHECKS[check](module)):
            act(manner, told)
            return lambda inputs: {}
        for look in CHECKS.values():
            if told := look(module):
                raise RefusedError(told)
        raise RefusedError("whatever it is, it is not valid")
