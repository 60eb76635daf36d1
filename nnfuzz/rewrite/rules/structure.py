"""Rules that change order, number and names of nodes and values, and the file's metadata."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import onnx

from nnfuzz.ir.dtypes import DType
from nnfuzz.materialize import protos
from nnfuzz.materialize.walk import bodies, reads
from nnfuzz.rewrite.draft import Draft, deterministic, names_in
from nnfuzz.rewrite.rule import models

FAMILY = "structure"
_REALS = (DType.FLOAT16, DType.FLOAT32, DType.FLOAT64)


def _anywhere(draft: Draft) -> list[int]:
    return [0]


def _movable(draft: Draft) -> list[int]:
    return [0] if len(draft.graph.node) > 1 else []


@models(FAMILY, _movable)
def node_order(draft: Draft, site: int, rng: random.Random) -> None:
    """Nodes -> the same in another order in which every value is computed before it is read."""
    nodes = [*draft.graph.node]
    waiting = [{draft.makers[n] for n in reads(node) if n in draft.makers} for node in nodes]
    order: list[int] = []
    left = set(range(len(nodes)))
    while left:
        i = rng.choice(sorted(i for i in left if not waiting[i] & left))
        left.remove(i)
        order.append(i)
    draft.set_nodes([nodes[i] for i in order])


def _copyable(draft: Draft) -> list[int]:
    return [
        i
        for i, node in enumerate(draft.graph.node)
        if deterministic(node) and not any(bodies(node))
    ]


@models(FAMILY, _copyable)
def node_duplicated(draft: Draft, site: int, rng: random.Random) -> None:
    """A node -> twice the same node, whose results some readers take from the second: equal inputs
    give equal results."""
    copy = onnx.NodeProto()
    copy.CopyFrom(draft.graph.node[site])
    names = {name: draft.fresh("copy") for name in copy.output if name}
    del copy.output[:]
    copy.output.extend(names.get(name, "") for name in draft.graph.node[site].output)
    copy.name = draft.fresh("copy")
    for name, other in names.items():
        readers = draft.readers.get(name, ())
        if readers:
            draft.rename(name, other, rng.sample(readers, rng.randint(1, len(readers))))
    nodes = [*draft.graph.node]
    draft.set_nodes([*nodes[: site + 1], copy, *nodes[site + 1 :]])


def _equal_nodes(draft: Draft) -> list[tuple[int, int]]:
    found = []
    first: dict[object, Any] = {}
    for i in _copyable(draft):
        node = draft.graph.node[i]
        attributes = sorted(a.SerializeToString() for a in node.attribute)
        given = tuple(bool(name) for name in node.output)
        key = (node.op_type, node.domain, *node.input, "|", *attributes, given)
        if key in first and not any(name in draft.outputs for name in node.output):
            found.append((first[key], i))
        first.setdefault(key, i)
    return found


@models(FAMILY, _equal_nodes)
def nodes_merged(draft: Draft, site: tuple[int, int], rng: random.Random) -> None:
    """Two nodes with equal operators, attributes and inputs -> the first of them alone."""
    kept, gone = (draft.graph.node[i] for i in site)
    for old, new in zip([*gone.output], [*kept.output]):
        if old:
            draft.rename(old, new)
    del draft.graph.node[site[1]]


def _computable(draft: Draft) -> list[str]:
    return [name for name in draft.flowing() if draft.types[name].dtype in _REALS]


@models(FAMILY, _computable, uses=["Neg", "Abs", "Relu", "Mul", "Add"])
def dead_nodes(draft: Draft, site: str, rng: random.Random) -> None:
    """Nodes whose results nobody reads -> no difference: they have no side effects, and are defined
    for all numbers."""
    emit, x = draft.emitter(), site
    for _ in range(rng.randint(1, 3)):
        operator = rng.choice(["Neg", "Abs", "Relu", "Mul", "Add"])
        x = emit.one(operator, x, *([x] if operator in ("Mul", "Add") else []))
    draft.put(draft.makers[site] + 1 if site in draft.makers else 0, emit)


def _pools(draft: Draft) -> list[int]:
    nodes = enumerate(draft.graph.node)
    return [i for i, node in nodes if _OPTIONAL.get(node.op_type, 0) > len(node.output)]


_OPTIONAL = {"MaxPool": 2, "Dropout": 2}
"""Operators -> number of outputs, all optional but the first, which they do not change."""


@models(FAMILY, _pools)
def dead_output(draft: Draft, site: int, rng: random.Random) -> None:
    """MaxPool or Dropout -> the same with its optional output, which nobody reads."""
    draft.graph.node[site].output.append(draft.fresh("optional"))


# -- names ------------------------------------------------------------------------------------

_WORDS = (
    "if else for while return class def lambda import None True False int float double void char "
    "main const static template namespace operator this new delete auto and or not null input "
    "output data shape value x y n i self list dict str printf exit tmp T N"
).split()


def _short(rng: random.Random) -> Iterator[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield from (letters[i % 26].upper() if i % 2 else letters[i % 26] for i in range(26))
    yield from (f"{letters[i % 26]}{i // 26}" for i in range(1 << 20))


def _long(rng: random.Random) -> Iterator[str]:
    stem = "very_" * rng.choice([20, 60, 200])
    yield from (f"{stem}{i}" for i in range(1 << 20))


def _numbers(rng: random.Random) -> Iterator[str]:
    yield from (f"{i}" for i in range(1 << 20))


def _cases(rng: random.Random) -> Iterator[str]:
    """Names that differ only in upper and lower case."""
    for i in range(1 << 20):
        bits = f"{i:020b}"
        yield "".join(c.upper() if b == "1" else c for c, b in zip("aaaaaaaaaaaaaaaaaaaa", bits))


def _operators(rng: random.Random) -> Iterator[str]:
    yield from ("Relu", "Add", "Conv", "Constant", "Shape", "Identity", "If", "Loop", "MatMul")
    yield from (f"{name}_{i}" for i in range(1 << 20) for name in ("Relu", "Shape", "Add"))


def _reserved(rng: random.Random) -> Iterator[str]:
    yield from rng.sample(_WORDS, len(_WORDS))
    yield from (f"{word}{i}" for i in range(1 << 20) for word in _WORDS)


def _paths(rng: random.Random) -> Iterator[str]:
    """Names such as PyTorch's exporters write."""
    yield from (f"/model/layers.{i}/act/Relu_output_0" for i in range(1 << 20))


_STYLES: tuple[Callable[[random.Random], Iterator[str]], ...] = (
    _short, _long, _numbers, _cases, _operators, _reserved, _paths,
)  # fmt: skip


@models(FAMILY, _anywhere)
def values_renamed(draft: Draft, site: int, rng: random.Random) -> None:
    """Names of inner values and constants -> long or short ones, numbers, names that differ in case
    alone, names of operators, reserved words of programming languages, paths: no two alike, and a
    name means nothing. Inputs and outputs keep theirs."""
    graph = draft.graph
    public = {value.name for value in (*graph.input, *graph.output)}
    names = [*(tensor.name for tensor in graph.initializer), *draft.makers]
    inner = [name for name in dict.fromkeys(names) if name not in public]
    styled = (name for name in rng.choice(_STYLES)(rng) if name not in draft.taken)
    chosen = dict(zip(inner, styled))
    for node in graph.node:
        _everywhere(node, chosen)
    for tensor in graph.initializer:
        tensor.name = chosen.get(tensor.name, tensor.name)


def _everywhere(node: onnx.NodeProto, names: dict[str, str]) -> None:
    """Renames values wherever they are read or computed, outside of function bodies."""
    for used in (node.input, node.output):
        for i, name in enumerate(used):
            used[i] = names.get(name, name)
    for body in bodies(node):
        _inside(body, names)


def _inside(body: onnx.GraphProto, names: dict[str, str]) -> None:
    for node in body.node:
        _everywhere(node, names)
    for value in body.output:
        value.name = names.get(value.name, value.name)


@models(FAMILY, _anywhere)
def nodes_renamed(draft: Draft, site: int, rng: random.Random) -> None:
    """Names of nodes -> none, or other ones: they are for people, and may be missing."""
    styled = rng.choice(_STYLES)(rng)
    missing = rng.random() < 0.4
    for node in draft.graph.node:
        node.name = "" if missing else next(styled)


def _branched(draft: Draft) -> list[int]:
    return [i for i, node in enumerate(draft.graph.node) if node.op_type == "If"]


@models(FAMILY, _branched)
def siblings_alike(draft: Draft, site: int, rng: random.Random) -> None:
    """Names inside of one branch of an If -> those of the other branch: neither sees the other."""
    first, second = (body for body in bodies(draft.graph.node[site]))
    if any(any(bodies(node)) for node in second.node):
        return
    theirs = [name for node in first.node for name in node.output if name]
    own = [name for node in second.node for name in node.output if name]
    taken = names_in(second)
    names = {old: new for old, new in zip(own, theirs) if new not in taken}
    _inside(second, names)


# -- further entries of the file ----------------------------------------------------------------


@models(FAMILY, _anywhere)
def shapes_declared(draft: Draft, site: int, rng: random.Random) -> None:
    """No declarations of inner values -> the dtypes and shapes that ONNX infers, for some of them:
    they say what follows from the model."""
    declared = {value.name for value in draft.graph.value_info}
    public = {*draft.inputs, *draft.outputs, *declared}
    names = [n for n in draft.makers if n in draft.types and n not in public]
    share = rng.choice([0.5, 1.0])
    kept = [name for name in names if rng.random() < share]
    draft.graph.value_info.extend(protos.value_info(n, draft.types[n]) for n in kept)


@models(FAMILY, _anywhere)
def notes_added(draft: Draft, site: int, rng: random.Random) -> None:
    """No metadata -> documentation, metadata and a version of the model: for people alone."""
    draft.model.doc_string = 'a model\nwith "quotes" and % signs {} \\'
    draft.model.domain, draft.model.model_version = "org.example", rng.randint(0, 9)
    if not draft.model.metadata_props:
        draft.model.metadata_props.add(key="author", value="nobody")
    draft.graph.doc_string = "a graph"
    for node in draft.graph.node:
        if rng.random() < 0.5:
            node.doc_string = "computes " + node.op_type


@models(FAMILY, _anywhere)
def domain_unused(draft: Draft, site: int, rng: random.Random) -> None:
    """The domains that are imported -> one more that no node is of."""
    known = {entry.domain for entry in draft.model.opset_import}
    if "ai.onnx.ml" not in known:
        draft.model.opset_import.add(domain="ai.onnx.ml", version=3)


def _sized_inputs(draft: Draft) -> list[tuple[str, int]]:
    shapes = [(n, draft.types[n].rank) for n in draft.inputs if n in draft.types]
    return [(name, axis) for name, rank in shapes for axis in range(rank)]


@models(FAMILY, _sized_inputs)
def dimension_symbolic(draft: Draft, site: tuple[str, int], rng: random.Random) -> None:
    """The size of an input along an axis -> a symbol, or nothing: the file promises less, and the
    input that comes has that size all the same."""
    name, axis = site
    value = next(value for value in draft.graph.input if value.name == name)
    dimension = value.type.tensor_type.shape.dim[axis]
    dimension.ClearField("dim_value")
    if rng.random() < 0.7:  # a symbol of its own: equal sizes need not be the same by meaning
        dimension.dim_param = f"N{axis}_{name}"


RULES = (
    node_order, node_duplicated, nodes_merged, dead_nodes, dead_output, values_renamed,
    nodes_renamed, siblings_alike, shapes_declared, notes_added, domain_unused, dimension_symbolic,
)  # fmt: skip
