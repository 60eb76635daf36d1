"""Rewrite rules: where a rule applies, how, and why the model keeps its meaning."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypedDict, Unpack

import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.vary.rewrite.draft import Build, Draft, Nodes

Sites = Callable[[Draft], Sequence[Any]]
Apply = Callable[[Draft, Any, random.Random], None]
Admits = Callable[[TensorType], bool]
NodeBuild = Callable[[Nodes, Draft, onnx.NodeProto, random.Random], Sequence[str]]
"""(emit, draft, node, rng) -> values that replace the outputs of the node."""


class Kind(StrEnum):
    """The part of a model that a rule changes. Each kind is drawn with a share of its own.

    REWRITE: the nodes that compute the results. SPELLING: the way in which the same nodes and
    constants are written. FORM: the file, with the same nodes in it. ENDS: inputs, outputs or
    further files, which a reader of the file has to know. EMPTY: tensors without elements; these
    rules are used on request only.
    """

    REWRITE = "rewrite"
    SPELLING = "spelling"
    FORM = "form"
    ENDS = "ends"
    EMPTY = "empty"


@dataclass(frozen=True)
class Rule:
    """A model of equal meaning, which depends on (model, site, rng) alone.

    sites: places where it applies, in a fixed order. apply: rewrites a draft at one of them.
    obligation: why the meaning is kept. bits: whether a correct compiler gives the same bits for
    the value of every operator as before, if it rounds in the same way; otherwise the new results
    lie within the envelope of the former operator. uses: ONNX operators that it may bring into the
    model.
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
    """A rule that lets readers of a value read another, equal value, from an opset on."""

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
    """A rule that replaces a node by other nodes. operators: those it applies to; empty for all."""

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
    """A rule that changes a draft as a whole."""
    return lambda apply: _rule(apply, family, sites, apply, details)


def _rule(
    function: Callable[..., object], family: str, sites: Sites, apply: Apply, details: Details
) -> Rule:
    obligation = " ".join((inspect.getdoc(function) or "").split())
    return Rule(function.__name__, family, obligation, sites, apply, **details)
