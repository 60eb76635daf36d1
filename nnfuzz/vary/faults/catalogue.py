"""All kinds of faults, and the function that puts one into a model."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np
import onnx

from nnfuzz.vary.faults import graphs, nodes, tensors
from nnfuzz.vary.faults.fault import Fault
from nnfuzz.vary.faults.site import Kind, NoPlace, Site

_MODULES = (graphs, nodes, tensors)
KINDS: Mapping[str, Kind] = {
    kind.name: kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, Kind)
}


@dataclass(frozen=True)
class Disrupted:
    """A model that must be refused.

    model: the bytes of its file. inputs: to run it with if it is accepted. valid: the model without
    the fault, and its inputs.
    """

    model: bytes
    inputs: dict[str, np.ndarray]
    valid: tuple[bytes, dict[str, np.ndarray]]
    fault: Fault


def disrupted(
    kind: Kind, model: bytes, inputs: Mapping[str, np.ndarray], rng: random.Random
) -> Disrupted | None:
    """Puts one fault into a valid model; None if the fault applies nowhere in it.

    The result depends on the arguments alone.
    """
    site = Site(onnx.load_model_from_string(model), dict(inputs), rng)
    try:
        what = kind.make(site)
    except NoPlace:
        return None
    data = site.data
    if data is None:
        data = site.model.SerializeToString(deterministic=True)
    fault = Fault(kind.name, what, kind.clause, site.operator)
    return Disrupted(data, site.inputs, site.valid or (model, dict(inputs)), fault)


@cache
def carriers(kind: Kind) -> frozenset[str] | None:
    """The standard's operators to which a fault applies; None for all."""
    if kind.carries is None:
        return None
    return frozenset(
        s.name for s in onnx.defs.get_all_schemas() if kind.carries(s) and not s.domain
    )
