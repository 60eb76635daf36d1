"""Counts the nodes that an ONNX model means before anything walks it, and rejects senseless ones.

A file of three kilobytes can be a model of 2^40 nodes once its functions are written out, and one
whose functions call themselves has no end. Shape inference, inlining and the rest of ONNX find out
by trying, so that readers of foreign models count first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING, Any

from nnfuzz.base.reading import Unreadable

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

MAX_NODES = 1_000_000
"""The most nodes of a model with its functions written out at every call; the largest models that
exporters write of modules have some ten thousand."""
_WORDS = 200  # characters of the checker's message
_SHOWN = 5  # functions of a circle that an error names


class Unusable(Unreadable):
    """A model that is complete, but means too much, or nothing; the message has the reason."""


def check_bounds(model: ModelProto, of: object = "the model") -> None:
    """Raises: Unusable if the model has more than MAX_NODES nodes once functions are written out,
    or a function calls itself, directly or by others.
    """
    try:
        count = _written_out(model)
    except CycleError as error:
        circle = " calls ".join(name[1] for name in error.args[1][:_SHOWN])
        raise Unusable(f"{of} makes no sense: a function calls itself ({circle})") from error
    if count > MAX_NODES:
        raise Unusable(
            f"{of} is too large: it has more than {MAX_NODES:,} nodes, functions written out"
        )


def check_sense(model: ModelProto, of: object = "the model") -> None:
    """Raises: Unusable for what ONNX forbids and its libraries do not survive in any order: an
    attribute that a node has twice, a node that comes before one whose result it reads.
    """
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in all_nodes(nodes):
            twice = [n for n, k in Counter(a.name for a in node.attribute).items() if k > 1]
            if twice:
                raise Unusable(
                    f"{of} makes no sense: a {node.op_type} has the attribute {twice[0]!r} twice"
                )
        if late := _late(nodes):
            raise Unusable(f"{of} makes no sense: {late!r} is read before it is computed")


@contextmanager
def blaming(
    model: ModelProto | bytes, of: object = "the model", known: type[Exception] = Unreadable
) -> Iterator[None]:
    """Raises: Unusable for an exception of the block if ONNX's checker rejects the model.

    known: exceptions that explain themselves, and pass. So do all if the model is valid: they are
    faults of nnfuzz.
    """
    try:
        yield
    except Exception as error:
        if isinstance(error, Unreadable | MemoryError | known):
            raise
        from onnx import checker

        try:
            checker.check_model(model)
        except Exception as problem:  # of several classes
            message = " ".join(str(problem).split())[:_WORDS]
            raise Unusable(f"{of} is not valid: {message}") from error
        raise


def all_nodes(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of all sub-graphs inside of them."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in _graphs(attribute):
                yield from all_nodes(graph.node)


def _graphs(attribute: Any) -> Iterator[GraphProto]:
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def _written_out(model: ModelProto) -> int:
    """Nodes of a model whose functions are written out at every call, or some number above
    MAX_NODES. Raises: CycleError.
    """
    functions = {
        (f.domain, f.name, f.overload): Counter(map(_kind, all_nodes(f.node)))
        for f in model.functions
    }
    calls = {name: kinds.keys() & functions.keys() for name, kinds in functions.items()}
    sizes: dict[tuple[str, ...], int] = {}
    for name in TopologicalSorter(calls).static_order():
        sizes[name] = _size(functions[name], sizes)
    return _size(Counter(map(_kind, all_nodes(model.graph.node))), sizes)


def _kind(node: NodeProto) -> tuple[str, str, str]:
    """The function that a node calls, if there is such a function."""
    return node.domain, node.op_type, node.overload


def _size(kinds: Counter[tuple[str, str, str]], sizes: dict[tuple[str, ...], int]) -> int:
    """Nodes of a body, and at most MAX_NODES + 1, above which the count does not matter."""
    return min(sum(k * (1 + sizes.get(kind, 0)) for kind, k in kinds.items()), MAX_NODES + 1)


def _late(nodes: Iterable[NodeProto]) -> str:
    """A value that a node reads, itself or in a body, before a later one of the same level computes
    it; "" if there is none.
    """
    nodes = list(nodes)
    waiting = {name for node in nodes for name in node.output if name}
    for node in nodes:
        for inner in all_nodes([node]):
            if late := next((name for name in inner.input if name in waiting), ""):
                return late
        waiting.difference_update(node.output)
    return ""
