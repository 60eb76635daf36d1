"""A variation of whole test cases: models with one fault, which every compiler must refuse."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import onnx

from nnfuzz.ir.support_key import SupportKey
from nnfuzz.vary.faults import graphs, nodes
from nnfuzz.vary.faults.fault import PLANTED, Fault
from nnfuzz.vary.faults.site import Kind, NoPlace, Site
from nnfuzz.vary.variation import Base, MakeBase, NotVaried, Variation, VariedTest

if TYPE_CHECKING:
    from nnfuzz.testcase.case import CaseConfig, TestCase

ATTEMPTS = 40
"""Models that are tried until a fault applies; most kinds apply to the first or second."""

_MODULES = (graphs, nodes)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, Kind)
}


@dataclass(frozen=True)
class Disrupted:
    """A model that must be refused.

    model: its serialised bytes. inputs: to run it with if a compiler accepts it. valid: the model
    without the fault, and its inputs.
    """

    model: bytes
    inputs: dict[str, np.ndarray]
    valid: tuple[bytes, dict[str, np.ndarray]]
    fault: Fault


def disrupted(
    kind: Kind, model: bytes, inputs: Mapping[str, np.ndarray], rng: random.Random
) -> Disrupted | None:
    """Put one fault into a valid model; None if the fault does not apply to it.

    The result depends on the arguments only.
    """
    site = Site(onnx.load_model_from_string(model), dict(inputs), rng)
    try:
        what = kind.make(site)
    except NoPlace:
        return None
    data = site.model.SerializeToString(deterministic=True)
    fault = Fault(kind.name, what, kind.clause, site.operator)
    return Disrupted(data, site.inputs, site.valid or (model, dict(inputs)), fault)


@cache
def carriers(kind: Kind) -> frozenset[str] | None:
    """The standard operators to which a kind of fault applies; None for all."""
    if kind.carries is None:
        return None
    return frozenset(
        s.name for s in onnx.defs.get_all_schemas() if kind.carries(s) and not s.domain
    )


class Faults(Variation):
    """Puts one fault into a valid model; the kinds of faults take turns.

    If a fault needs a certain operator, the model consists of that operator alone; otherwise it is
    a model of one operator or a small graph.
    """

    name, setting, remakes = PLANTED.rstrip(":"), "invalid", True

    @classmethod
    def applies(cls, config: CaseConfig) -> bool:
        return config.invalid

    def remade(self, test: VariedTest, make: MakeBase) -> TestCase:
        kinds = list(KINDS.values())
        kind, rng = kinds[(test.seed + (test.index or 0)) % len(kinds)], test.stream(self.name)
        keys = _keys(test, kind)
        for _ in range(ATTEMPTS if keys else 0):
            base = make(_base(kind, keys, self.config.exporter, rng))
            faulty = disrupted(kind, base.model, base.inputs, rng) if base else None
            if base is not None and faulty is not None:
                names = (*base.variations, f"{PLANTED}{kind.name}")
                plain, inputs = faulty.valid
                return replace(
                    base, model=faulty.model, inputs=faulty.inputs, fault=faulty.fault, weights={},
                    expected={}, plain=plain, plain_inputs=inputs, variations=names,
                )  # fmt: skip
        raise NotVaried(f"none of {ATTEMPTS} models has a place for the fault {kind.name}")


def _keys(test: VariedTest, kind: Kind) -> list[str]:
    """The signatures of operators to which the kind of fault applies."""
    names = carriers(kind)
    keys = test.catalog.signature_keys()
    return [key for key in keys if names is None or SupportKey.parse(key).operator in names]


def _base(kind: Kind, keys: list[str], exporter: str, rng: random.Random) -> Base:
    """A random valid model to put the fault into. keys: the admissible signatures."""
    if kind.carries is None and rng.random() < 0.5:
        return Base(rng.randrange(1 << 31))
    key = SupportKey.parse(rng.choice(keys)).with_exporter(exporter)
    return Base(rng.randrange(1 << 31), key)
