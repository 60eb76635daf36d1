"""The version of an operator at an opset: a compiler that takes one version may lack another.

An observation at one opset holds for every other opset at which the operator is written by the
same versions of ONNX's operators, so nothing needs to be asked again there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, partial

import onnx

from nnfuzz.check.instances import SignatureTypes
from nnfuzz.check.legality import NOTHING_KEPT, Judgements, illegal, lowered, names_one_operator
from nnfuzz.generate.catalog import signature_key
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.ir.opset_imports import domain_version
from nnfuzz.materialize.emit import OPSETS
from nnfuzz.materialize.older import WHOLE
from nnfuzz.materialize.walk import graphs, qualified_name
from nnfuzz.operators.operator import OpSpec

Version = tuple[int, ...]
_REACHED = tuple(range(OPSETS[0], OPSETS[1] + 1))


@cache
def version_of(spec: type[OpSpec], opset: int, judgements: Judgements = NOTHING_KEPT) -> Version:
    """The versions at an opset of the ONNX operators that a spec is lowered to, sorted by name;
    0 for one that the opset does not have.

    judgements: of earlier processes.
    """
    return tuple(_since(name, opset) for name in _written(spec, judgements))  # type: ignore[arg-type]


@cache
def newest_of_version(
    spec: type[OpSpec],
    opset: int,
    opsets: tuple[int, ...],
    judgements: Judgements = NOTHING_KEPT,
) -> int:
    """The newest of `opsets` up to which the operator has the same version as at `opset`."""
    newest, own = opset, version_of(spec, opset, judgements)  # type: ignore[arg-type]
    for later in sorted(o for o in opsets if o > opset):
        if version_of(spec, later, judgements) != own:  # type: ignore[arg-type]
            break
        newest = later
    return newest


def admitted_by_schema(
    config: GenerateConfig,
    specs: Iterable[type[OpSpec]],
    release: str | None = None,
    judgements: Judgements = NOTHING_KEPT,
) -> GenerateConfig:
    """The configuration with the signatures refused that ONNX does not admit at its opset.

    Each version of an operator is judged once, at its newest opset. release: of onnx, whose schemas
    count; None for the installed one. judgements: of earlier processes.
    """
    judged: dict[int, list[type[OpSpec]]] = {}
    for spec in specs:
        opset = config.opset
        if spec.since <= opset:
            opset = newest_of_version(spec, opset, _REACHED, judgements)  # type: ignore[arg-type]
        judged.setdefault(opset, []).append(spec)
    refused = (illegal(found, opset, release, judgements) for opset, found in judged.items())
    return replace(config, refused=config.refused.union(*refused))


def legal_opsets(spec: type[OpSpec], signature: SignatureTypes) -> list[int]:
    """The opsets within reach of direct emission at which every instance of a signature has a valid
    model, if any has; before WHOLE some instances have none.
    """
    key = signature_key(spec, *signature)
    opsets = range(max(WHOLE, spec.since), OPSETS[1] + 1)
    judged = {o: newest_of_version(spec, o, _REACHED) for o in opsets}  # type: ignore[arg-type]
    refused = {o: key in illegal([spec], o) for o in dict.fromkeys(judged.values())}
    return [o for o in opsets if not refused[judged[o]]]


@cache
def _written(spec: type[OpSpec], judgements: Judgements) -> tuple[str, ...]:
    """The ONNX operators of a spec's lowering, at the oldest opsets and at the newest."""
    if names_one_operator(spec):
        return (spec.name,)
    names = judgements.answer(spec, "written", r"\S+( \S+)*", partial(_all_names, spec))
    return tuple(names.split())


def _all_names(spec: type[OpSpec]) -> str:
    """WHOLE is among the opsets since many forms do not exist before it."""
    opsets = {max(since, spec.since) for since in (OPSETS[0], WHOLE)} | {OPSETS[1]}
    return " ".join(sorted({name for opset in opsets for name in _names(spec, opset)}))


def _names(spec: type[OpSpec], opset: int) -> Iterator[str]:
    for model in lowered(spec, opset):
        for graph in graphs(model.graph):
            yield from map(qualified_name, graph.node)


@cache
def _since(name: str, opset: int) -> int:
    domain, _, name = name.rpartition(".")
    if domain and not onnx.defs.has(name, domain):  # which models import at version 1
        return 1
    try:
        version = domain_version(domain, opset)
        return int(onnx.defs.get_schema(name, version, domain).since_version)
    except onnx.defs.SchemaError:
        return 0
