"""Settings that decide what generated graphs look like."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.draw import Sizes

ENGINES = ("direct", "symbolic", "mutate")
"""The engines by name, the default first (nnfuzz.generate.engines)."""
DTYPE_WEIGHTS: Mapping[str, float] = {
    "float32": 6.0,
    "float64": 1.0,
    "float16": 0.7,
    "int64": 1.0,
    "int32": 1.0,
    "bool": 1.0,
    "int8": 0.4,
    "int16": 0.3,
    "uint8": 0.4,
    "bfloat16": 0.5,
    "uint16": 0.2,
    "uint32": 0.2,
    "uint64": 0.2,
    "int4": 0.15,
    "uint4": 0.15,
    "float8_e4m3fn": 0.15,
    "float8_e5m2": 0.15,
    "float8_e4m3fnuz": 0.07,
    "float8_e5m2fnuz": 0.07,
}


def dtype_weights(only: Collection[str], without: Collection[str]) -> dict[str, float | None]:
    """The setting `dtypes` with some dtypes only, or without some; {} if none is named. Raises:
    ValueError for an unknown dtype, or if no dtype is left."""
    for name in (*only, *without):
        if name not in DTYPE_WEIGHTS:
            meant = f"{name}32" if f"{name}32" in DTYPE_WEIGHTS else ""
            hint = f"did you mean {meant}? " if meant else ""
            names = ", ".join(DTYPE_WEIGHTS)
            raise ValueError(f"there is no dtype {name!r}; {hint}there are {names}")
    if not (only or without):
        return {}
    if not set(only or DTYPE_WEIGHTS) - set(without):
        raise ValueError("no dtype is left: exclude fewer, or allow more")
    others = (name for name in DTYPE_WEIGHTS if only and name not in only)
    return {**dict.fromkeys(others, 0.0), **dict.fromkeys(without)}


@dataclass(frozen=True)
class GenerateConfig:
    """Settings of the generation of one graph.

    nodes: operators in the graph. backward: probability of trying backward insertion first. reuse:
    probability that a further input is an existing value, not a placeholder. smt: probability of
    asking Z3 about an insertion that the present values do not admit. chain: probability of
    preferring a value that nothing reads yet, which makes graphs deep. motifs: average number of
    motifs per graph, if they fit. missed: probability of trying a near miss of a motif
    (nnfuzz.generate.misses); half of the tries succeed. weights: probability that a placeholder is
    a weight. bins: number of bins in attribute binning. solver_budget: Z3 checks per graph for
    insertions. resources: Z3 resource units per check. refused: signatures
    ("Add(float16)->float16") and operators ("Add") that a backend does not support, or that ONNX
    does not admit at the opset (nnfuzz.check.versions). avoid: edges ("Relu->Conv(float32)", see
    nnfuzz.ir.support_key) that graphs must not have. dtype_weights: relative frequencies by dtype
    name; 0: only where an operator admits nothing else (the int64 indices of Gather, the bool of
    Where); None: never. exporter, opset: how graphs will be exported; operators that cannot be
    exported so are left out. operator_weights: factors on operators' frequencies, by name. focus:
    operators of which every pair must have one (nnfuzz.generate.pairs); empty: any.
    """

    nodes: int = 10
    backward: float = 0.5
    reuse: float = 0.7
    smt: float = 0.2
    chain: float = 0.6
    motifs: float = 1.5
    missed: float = 0.9
    weights: float = 0.5
    bins: int = 7
    solver_budget: int = 2
    resources: int = 400_000
    sizes: Sizes = field(default_factory=Sizes)
    dtype_weights: Mapping[str, float | None] = field(default_factory=lambda: dict(DTYPE_WEIGHTS))
    refused: frozenset[str] = frozenset()
    avoid: frozenset[str] = frozenset()
    exporter: str = "direct"
    opset: int = 20
    operator_weights: Mapping[str, float] = field(default_factory=dict)
    focus: tuple[str, ...] = ()

    def dtype_weight(self, dtype: DType) -> float | None:
        """The relative frequency of a dtype; 0: only if an operator needs it; None: never."""
        return self.dtype_weights.get(dtype.text, 1.0)
