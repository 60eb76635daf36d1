"""An ONNX model under rewriting, and the contract of a rewrite rule: where it applies, what it
changes, and why the model keeps its meaning."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from types import MappingProxyType
from typing import Any, TypedDict, Unpack

import numpy as np
import onnx
from onnx import helper, numpy_helper

from nnfuzz.ir.dtypes import DType
from nnfuzz.ir.types import TensorType
from nnfuzz.materialize.emit import Emitter, rename_in_place
from nnfuzz.materialize.walk import graphs, reads

_DTYPES = {dtype.onnx: dtype for dtype in DType}
Build = Callable[["Nodes", str, TensorType, random.Random], str]
"""(emit, value, its type, rng) -> name of a new value that always equals the given one."""


class Draft:
    """A model under rewriting.

    stale: whether a rule has changed `model` since the last `learn`. types: of the main graph's
    values with known dtype and non-empty shape, inferred on first use. constants: initializers that
    are not inputs. changed: values whose node the last rule has renamed or given other inputs.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.changed: set[str] = set()
        self._before: dict[str, tuple[str, ...]] = {}
        self.learn()

    @cached_property
    def types(self) -> dict[str, TensorType]:
        inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True).graph
        declared = (*inferred.input, *inferred.value_info, *inferred.output)
        found = {value.name: type_ for value in declared if (type_ := _type(value))}
        tensors = [t for t in self.graph.initializer if t.data_type in _DTYPES]
        return found | {t.name: TensorType(_DTYPES[t.data_type], tuple(t.dims)) for t in tensors}

    @property
    def graph(self) -> onnx.GraphProto:
        return self.model.graph

    @property
    def opset(self) -> int:
        """Version of the standard's own operator set."""
        domains = {entry.domain: entry.version for entry in self.model.opset_import}
        return domains.get("", domains.get("ai.onnx", 1))

    def learn(self) -> None:
        """Read the model again after a change."""
        self.stale = False
        vars(self).pop("types", None)
        inputs = {value.name for value in self.graph.input}
        self.constants = {t.name: t for t in self.graph.initializer if t.name not in inputs}
        initialised = {tensor.name for tensor in self.graph.initializer}
        self.inputs = [v.name for v in self.graph.input if v.name not in initialised]
        self.outputs = [value.name for value in self.graph.output]
        self.taken = names_in(self.graph)
        self.makers = {n: i for i, node in enumerate(self.graph.node) for n in node.output if n}
        self.forget()
        self.readers: dict[str, list[int]] = {}
        for i, node in enumerate(self.graph.node):
            for name in reads(node):
                self.readers.setdefault(name, []).append(i)
        makers = {name: (n.op_type, *n.input) for n in self.graph.node for name in n.output if name}
        self.changed = {name for name in makers if self._before.get(name) != makers[name]}
        self._before = makers

    def forget(self) -> None:
        """Remove declarations of values that no longer exist."""
        made = {name for node in self.graph.node for name in node.output}
        kept = [value for value in self.graph.value_info if value.name in made]
        if len(kept) < len(self.graph.value_info):
            del self.graph.value_info[:]
            self.graph.value_info.extend(kept)

    # -- queries ------------------------------------------------------------------------------

    def flowing(self) -> list[str]:
        """Inputs and computed values with a known type and a reader, in order of computation."""
        names = (*self.inputs, *self.makers)
        return [n for n in names if n in self.types and (n in self.readers or n in self.outputs)]

    def value(self, name: str) -> np.ndarray | None:
        """The value of a constant; None for other values."""
        tensor = self.constants.get(name)
        return None if tensor is None else numpy_helper.to_array(tensor)

    def dtype(self, name: str) -> DType | None:
        return self.types[name].dtype if name in self.types else None

    def rank(self, name: str) -> int:
        """Rank of a value; -1 if it is unknown."""
        return self.types[name].rank if name in self.types else -1

    # -- changes ------------------------------------------------------------------------------

    def drop_unread(self) -> None:
        """Remove the initializers that nodes read before the present step, and read no more."""
        read = {name for node in self.graph.node for name in reads(node)} | {*self.outputs}
        for tensor in [t for t in self.graph.initializer if t.name in self.readers]:
            if tensor.name not in read:
                self.graph.initializer.remove(tensor)

    def fresh(self, stem: str) -> str:
        """An unused name."""
        name = next(n for i in itertools.count(1) if (n := f"{stem}_{i}") not in self.taken)
        self.taken.add(name)
        return name

    def emitter(self) -> Nodes:
        """A collector of new nodes with unique names; `put` inserts them."""
        return Nodes(self)

    def put(self, position: int, emit: Nodes) -> None:
        """Insert the nodes of an emitter before the node at a position."""
        nodes = [*self.graph.node]
        self.set_nodes([*nodes[:position], *emit.nodes, *nodes[position:]])
        self.graph.initializer.extend(emit.initializers)

    def set_nodes(self, nodes: Iterable[onnx.NodeProto]) -> None:
        kept = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del self.graph.node[:]
        self.graph.node.extend(kept)

    def rename(self, old: str, new: str, positions: Iterable[int] | None = None) -> None:
        """Rename a value in the nodes (default: all) that read or compute it."""
        chosen = range(len(self.graph.node)) if positions is None else positions
        for i in chosen:
            rename_in_place(self.graph.node[i], {old: new})

    def detour(self, name: str, build: Build, rng: random.Random) -> None:
        """Let some or all readers of a value read an equal value, computed by `build`."""
        emit = self.emitter()
        after = build(emit, name, self.types[name], rng)
        position = self.makers[name] + 1 if name in self.makers else 0
        ends: list[int | str] = [i for i in self.readers.get(name, ()) if i >= position]
        if name in self.outputs and name in self.makers:
            ends.append(name)
        chosen = ends if rng.random() < 0.5 else rng.sample(ends, rng.randint(1, len(ends)))
        self.rename(name, after, [end for end in chosen if isinstance(end, int)])
        self.put(position, emit)
        if name in chosen:  # the model's output keeps its name
            self.rename(name, self.fresh("inner"))
            self.rename(after, name)

    def replace(self, position: int, emit: Nodes, results: Sequence[str]) -> None:
        """Replace a node by new nodes; `results` are the new names of its outputs."""
        node = self.graph.node[position]
        nodes = [*self.graph.node]
        made = {name for other in emit.nodes for name in other.output}
        names: dict[str, str] = {}
        for result, wanted in zip(results, node.output):
            if not wanted:
                continue
            if result not in made or result in names:
                result = emit.one("Identity", result)
            names[result] = wanted
        new = [rename_in_place(other, names) for other in emit.nodes]
        self.set_nodes([*nodes[:position], *new, *nodes[position + 1 :]])
        self.graph.initializer.extend(emit.initializers)

    def replace_constant(self, name: str, emit: Nodes, result: str) -> None:
        """Let all readers of a constant read another value, computed at the start of the model."""
        del self.graph.initializer[[t.name for t in self.graph.initializer].index(name)]
        self.rename(name, result)
        self.put(0, emit)

    def needs_ir(self, version: int) -> None:
        """Raise the model's IR version to at least this one."""
        self.model.ir_version = max(self.model.ir_version, version)


class Nodes(Emitter):
    """New nodes and constants for a draft, with unique names."""

    def __init__(self, draft: Draft) -> None:
        super().__init__(draft.opset, draft.types)
        self._draft = draft

    def one(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """Append a node with one output; returns the output's name."""
        (name,) = self.several(op_type, 1, *inputs, **attributes)
        return name

    def several(
        self, op_type: str, count: int, *inputs: str, **attributes: object
    ) -> tuple[str, ...]:
        """Append a node with `count` outputs; returns their names."""
        made = self(op_type, *inputs, outputs=count, **attributes)
        return (made,) if isinstance(made, str) else made

    def copied(self, node: onnx.NodeProto, inputs: Sequence[str]) -> list[str]:
        """Append a copy of a node with other inputs; returns its outputs ("" for omitted ones)."""
        made = self.several(node.op_type, len(node.output), *inputs)
        names = [name if old else "" for name, old in zip(made, node.output)]
        proto = self.nodes[-1]
        del proto.output[:]
        proto.output.extend(names)
        proto.attribute.extend(node.attribute)
        return names

    def _name(self, stem: str) -> str:
        return self._draft.fresh(stem)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    """Attributes by name, as Python values."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute if not a.ref_attr_name}


def _type(value: onnx.ValueInfoProto) -> TensorType | None:
    """The type of a declared value; None if it is no tensor, or its size is unknown or 0."""
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    if tensor.elem_type not in _DTYPES or any(d.dim_value < 1 for d in tensor.shape.dim):
        return None
    return TensorType(_DTYPES[tensor.elem_type], tuple(d.dim_value for d in tensor.shape.dim))


def names_in(graph: onnx.GraphProto) -> set[str]:
    """All names of values and nodes, including those of sub-graphs."""
    return {name for inner in graphs(graph) for name in _own_names(inner)}


def _own_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield graph.name
    yield from (value.name for value in (*graph.input, *graph.initializer, *graph.output))
    for node in graph.node:
        yield from (node.name, *node.input, *node.output)


# -- regions ----------------------------------------------------------------------------------

MOST_NODES = 4


@dataclass(frozen=True)
class Region:
    """Consecutive nodes, from `start` to `stop` (exclusive), of the main graph.

    inputs: outer values that the nodes or their sub-graphs read. outputs: values read outside.
    """

    start: int
    stop: int
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    def nodes(self, draft: Draft) -> list[onnx.NodeProto]:
        """Copies of the nodes."""
        own = draft.graph.node[self.start : self.stop]
        return [onnx.NodeProto.FromString(node.SerializeToString()) for node in own]

    def replaced(self, draft: Draft, nodes: Sequence[onnx.NodeProto]) -> None:
        """Replace the region by other nodes."""
        all_ = [*draft.graph.node]
        draft.set_nodes([*all_[: self.start], *nodes, *all_[self.stop :]])


def known_regions(draft: Draft) -> list[Region]:
    """All regions of up to MOST_NODES nodes whose outputs have known types."""
    count = len(draft.graph.node)
    spans = [(i, j) for i in range(count) for j in range(i + 1, min(i + MOST_NODES, count) + 1)]
    regions = (region(draft, *span) for span in spans)
    return [r for r in regions if r.outputs and all(name in draft.types for name in r.outputs)]


def region(draft: Draft, start: int, stop: int) -> Region:
    nodes = draft.graph.node[start:stop]
    made = [name for node in nodes for name in node.output if name]
    read = dict.fromkeys(name for node in nodes for name in reads(node))
    ends = [
        n for n in made if n in draft.outputs or any(i >= stop for i in draft.readers.get(n, ()))
    ]
    return Region(start, stop, tuple(n for n in read if n not in made), tuple(ends))


def renamed_nodes(
    draft: Draft, region: Region, names: Mapping[str, str] = MappingProxyType({})
) -> tuple[list[onnx.NodeProto], list[str]]:
    """The region's nodes with fresh names for all values that they compute, and the output names.

    names: other names for values that the nodes read.
    """
    nodes = region.nodes(draft)
    fresh = {name: draft.fresh("in") for node in nodes for name in node.output if name}
    return [rename_in_place(n, {**names, **fresh}) for n in nodes], [
        fresh[n] for n in region.outputs
    ]


Sites = Callable[[Draft], Sequence[Any]]
Apply = Callable[[Draft, Any, random.Random], None]
Admits = Callable[[TensorType], bool]
NodeBuild = Callable[[Nodes, Draft, onnx.NodeProto, random.Random], Sequence[str]]
"""(emit, draft, node, rng) -> names of values that replace the node's outputs."""


class Kind(StrEnum):
    """The part of a model that a rule changes; each kind has its own share of tests.

    REWRITE: the nodes that compute the results. SPELLING: how the same nodes and constants are
    written (optional attributes, axes). FORM: the file, which holds the same nodes. ENDS: inputs,
    outputs or external files, which a reader of the file must know. EMPTY: tensors without
    elements; these rules are used on request only.
    """

    REWRITE = "rewrite"
    SPELLING = "spelling"
    FORM = "form"
    ENDS = "ends"
    EMPTY = "empty"


@dataclass(frozen=True)
class Rule:
    """A transformation to a model of equal meaning; the result depends on (model, site, rng) only.

    sites: places where the rule applies, in a fixed order. apply: rewrites a draft at one of them.
    obligation: why the meaning is kept. bits: whether a correct compiler, rounding in the same way,
    gives the same bits for the value of every original operator; otherwise the new results lie
    within the former operator's error bounds. uses: ONNX operators that the rule may add.
    """

    name: str
    family: str
    obligation: str
    sites: Sites
    apply: Apply
    bits: bool = True
    uses: Sequence[str] = ()
    kind: Kind = Kind.REWRITE


class Details(TypedDict, total=False):
    """Fields of a rule that have a default."""

    bits: bool
    uses: Sequence[str]
    kind: Kind


def values(
    family: str, admits: Admits, since: int = 0, **details: Unpack[Details]
) -> Callable[[Build], Rule]:
    """A rule that lets readers of a value read an equal value. since: its first opset."""

    def made(build: Build) -> Rule:
        def sites(draft: Draft) -> list[str]:
            names = draft.flowing() if draft.opset >= since else ()
            return [name for name in names if admits(draft.types[name])]

        def apply(draft: Draft, site: str, rng: random.Random) -> None:
            draft.detour(site, build, rng)

        return _rule(build, family, sites, apply, details)

    return made


def nodes(
    family: str,
    operators: Collection[str],
    when: Callable[[Draft, onnx.NodeProto], bool] = lambda draft, node: True,
    **details: Unpack[Details],
) -> Callable[[NodeBuild], Rule]:
    """A rule that replaces a node by other nodes. operators: to which it applies; empty: all."""

    def made(build: NodeBuild) -> Rule:
        def sites(draft: Draft) -> list[int]:
            return [
                i
                for i, node in enumerate(draft.graph.node)
                if node.domain in ("", "ai.onnx")
                and (not operators or node.op_type in operators)
                and when(draft, node)
            ]

        def apply(draft: Draft, site: int, rng: random.Random) -> None:
            emit = draft.emitter()
            draft.replace(site, emit, build(emit, draft, draft.graph.node[site], rng))

        return _rule(build, family, sites, apply, details)

    return made


def models(family: str, sites: Sites, **details: Unpack[Details]) -> Callable[[Apply], Rule]:
    """A rule that changes the draft as a whole."""
    return lambda apply: _rule(apply, family, sites, apply, details)


def _rule(
    function: Callable[..., object], family: str, sites: Sites, apply: Apply, details: Details
) -> Rule:
    obligation = " ".join((inspect.getdoc(function) or "").split())
    return Rule(function.__name__, family, obligation, sites, apply, **details)
