"""Rewrite rules: where a rule applies, how, and why the model keeps its meaning."""

from __future__ import annotations

import inspect
import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from nnfuzz.ir.types import TensorType
from nnfuzz.rewrite.draft import Build, Draft, Nodes

Sites = Callable[[Draft], Sequence[Any]]
Apply = Callable[[Draft, Any, random.Random], None]
Admits = Callable[[TensorType], bool]
NodeBuild = Callable[[Nodes, Draft, onnx.NodeProto, random.Random], Sequence[str]]
"""(emit, draft, node, rng) -> values that replace the outputs of the node."""


@dataclass(frozen=True)
class Rule:
    """A rewrite, which depends on (model, site, rng) alone.

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
    uses: tuple[str, ...] = ()


def values(
    family: str, admits: Admits, uses: Iterable[str] = (), bits: bool = True, since: int = 0
) -> Callable[[Build], Rule]:
    """A rule that lets readers of a value read another, equal value, in models of an opset from
    `since` on.
    """

    def made(build: Build) -> Rule:
        def sites(draft: Draft) -> list[str]:
            names = draft.flowing() if draft.opset >= since else ()
            return [name for name in names if admits(draft.types[name])]

        def apply(draft: Draft, site: str, rng: random.Random) -> None:
            draft.detour(site, build, rng)

        return _rule(build, family, sites, apply, bits, uses)

    return made


def nodes(
    family: str,
    operators: Collection[str],
    when: Callable[[Draft, onnx.NodeProto], bool] = lambda draft, node: True,
    uses: Iterable[str] = (),
    bits: bool = True,
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

        return _rule(build, family, sites, apply, bits, uses)

    return made


def models(
    family: str, sites: Sites, uses: Iterable[str] = (), bits: bool = True
) -> Callable[[Apply], Rule]:
    """A rule that changes a draft as a whole."""

    def made(apply: Apply) -> Rule:
        return _rule(apply, family, sites, apply, bits, uses)

    return made


def _rule(
    function: Callable[..., object],
    family: str,
    sites: Sites,
    apply: Apply,
    bits: bool,
    uses: Iterable[str],
) -> Rule:
    obligation = " ".join((inspect.getdoc(function) or "").split())
    return Rule(function.__name__, family, obligation, sites, apply, bits, tuple(uses))
