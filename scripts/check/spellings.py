"""Counts how each input and attribute of ONNX's operators is written in generated models, and lists
the ways that ONNX admits and no model has.

    python -m scripts.check.spellings --models 3000
    python -m scripts.check.spellings --models 3000 Reshape Conv

A way is: an attribute that is given or left out; an input that is left out, empty (a size of 0), a
scalar or a vector of one element, a constant, an input of the model, or computed by a node, and
its dtype. spellings.toml has the ways that are left out on purpose, with the reasons. Each line of
the result is a way that no model has and no reason covers. Exit status 1 if there is any.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import onnx
from onnx import TensorProto, defs

from nnfuzz.ir.dtypes import DType
from nnfuzz.library.generator import Generator

REASONS = Path(__file__).with_suffix(".toml")
VARIATIONS = {"motifs": 1.5, "quantize": 0.1, "spelled": 0.5, "forms": 0.1, "dynamic": 0.1}
DTYPES = {f"tensor({TensorProto.DataType.Name(d.onnx).lower()})": d.value for d in DType}
OPTIONAL = defs.OpSchema.FormalParameterOption.Optional


def written(model: onnx.ModelProto) -> Iterator[str]:
    """The ways in which the nodes of a model, outside of bodies and functions, are written."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    values = (*graph.input, *graph.value_info, *graph.output)
    types = {v.name: v.type.tensor_type for v in values if v.type.HasField("tensor_type")}
    known = {
        name: (t.elem_type, [d.dim_value if d.HasField("dim_value") else -1 for d in t.shape.dim])
        for name, t in types.items()
    }
    known |= {t.name: (t.data_type, list(t.dims)) for t in graph.initializer}
    sources = dict.fromkeys((v.name for v in graph.input), "input")
    constants = [n.output[0] for n in graph.node if n.op_type == "Constant"]
    sources |= dict.fromkeys((*constants, *(t.name for t in graph.initializer)), "constant")
    opset = {o.domain: o.version for o in model.opset_import}[""]
    for node in graph.node:
        if node.domain or not defs.has(node.op_type, ""):
            continue
        schema = defs.get_schema(node.op_type, opset, "")
        given = {a.name for a in node.attribute}
        for name in schema.attributes:
            yield f"{node.op_type} attribute {name} {'given' if name in given else 'left out'}"
        for place, name in enumerate(node.input):
            input_ = schema.inputs[min(place, len(schema.inputs) - 1)].name
            where = f"{node.op_type} input {input_}"
            if not name:
                yield f"{where} left out"
                continue
            yield f"{where} {sources.get(name, 'computed')}"
            if name in known:
                elem, shape = known[name]
                yield f"{where} {TensorProto.DataType.Name(elem).lower()}"
                yield from (f"{where} {kind}" for kind in _kinds(shape))
        for left in schema.inputs[len(node.input) :]:
            yield f"{node.op_type} input {left.name} left out"


def _kinds(shape: list[int]) -> Iterator[str]:
    if 0 in shape:
        yield "empty"
    if not shape:
        yield "scalar"
    if shape == [1]:
        yield "vector of one"


def admitted(operators: Iterable[str]) -> Iterator[str]:
    """The ways that the newest schema of each operator admits, as far as a schema can tell."""
    for operator in operators:
        schema = defs.get_schema(operator, domain="")
        for name, attribute in schema.attributes.items():
            if attribute.type != defs.OpSchema.AttrType.GRAPH:
                yield f"{operator} attribute {name} given"
                if not attribute.required:
                    yield f"{operator} attribute {name} left out"
        for input_ in schema.inputs:
            where = f"{operator} input {input_.name}"
            yield from (f"{where} {way}" for way in ("constant", "input", "computed"))
            if input_.option == OPTIONAL:
                yield f"{where} left out"
            for type_ in input_.types:
                if type_ in DTYPES:
                    yield f"{where} {TensorProto.DataType.Name(DType(DTYPES[type_]).onnx).lower()}"


def count(models: int, seed: int) -> Counter[str]:
    """How many models have each way, and under "OPERATOR" how many have the operator."""
    found: Counter[str] = Counter()
    generator = Generator(seed=seed, **VARIATIONS)
    for index in range(models):
        try:
            model = onnx.load_from_string(generator[index].model)
        except Exception as error:  # an index that gives nothing
            print(f"index {index}: {error}", file=sys.stderr)
            continue
        found.update({*written(model), *{n.op_type for n in model.graph.node if not n.domain}})
    return found


def missing(found: Counter[str], operators: Iterable[str], reasons: Iterable[str]) -> list[str]:
    """The ways of operators that some model has, which no model has and no reason covers."""
    among = [name for name in operators or sorted(found) if " " not in name and found[name]]
    ways = admitted(name for name in among if defs.has(name, ""))
    return [
        f"{way}  ({operator} in {found[operator]} models)"
        for way in ways
        if not found[way]
        and (operator := way.partition(" ")[0])
        and not any(fnmatchcase(way, pattern) for pattern in reasons)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("operators", nargs="*", help="of ONNX; default: all that occur")
    parser.add_argument("--models", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = count(given.models, given.seed)
    reasons = tomllib.loads(REASONS.read_text())
    left = missing(found, given.operators, reasons)
    print(*left, sep="\n")
    print(f"{len(left)} ways in no model, without a reason", file=sys.stderr)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
