"""Measures how much of each operator's error radius the installed backends use.

    python -m scripts.check.oracle --backend onnxruntime --backend tvm [OPERATOR ...]

Single-operator models with random inputs run on PyTorch and on the plain and the most optimised
level of every backend, in this process, each dtype by itself. `width` is the median of half the
envelope's width, in units in the last place. A party's column is the largest
deviation from the float64 reference as a share of what the envelope admits: above 1 is a mismatch
(printed, exit code 1), and an envelope of which every party uses a tenth or less is too wide (`*`).
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import torch

from nnfuzz.backend.contract import Backend
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.check import instances, reference_implementations
from nnfuzz.check.instances import OpInstance
from nnfuzz.compare.envelope import Envelope, envelopes, width
from nnfuzz.compare.verdict import outside
from nnfuzz.ir.dtypes import is_floating, plain
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.materialize.emit import emit_model
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry

Arrays = dict[str, np.ndarray]


def main() -> int:
    arguments = parse()
    torch.set_num_threads(1)
    registry = OpRegistry.load()
    backends = [BackendRegistry.discover().get(name)() for name in arguments.backend]
    for backend in backends:
        print(backend.name, backend.versions(), file=sys.stderr)
    parties = ["pytorch", *(f"{b.name}/{level}" for b in backends for level in b.default_levels())]
    print(f"{'operator':24s} {'dtype':9s} {'width':>9s} ", *(f"{p:>18s}" for p in parties))
    worst = 0.0
    for name in arguments.operators or registry:
        for dtype, found in sorted(calibrate(registry.get(name), backends, arguments).items()):
            used, wide = found.used, f"{median(found.widths):9.3g}" if found.widths else "exact"
            loose = "*" if found.widths and max(used.values()) <= LOOSE else " "
            columns = (f"{cell(used.get(p)):>18s}" for p in parties)
            print(f"{name:24s} {dtype:9s} {wide:>9s}{loose}", *columns, flush=True)
            worst = max([worst, *used.values()])
    return int(worst > 1)


LOOSE = 0.1
"""The greatest used share of an envelope that counts as too wide."""


@dataclass
class Measured:
    """Measurements of one operator in one dtype: the largest usage by party, the widths of inexact
    outputs."""

    used: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    widths: list[float] = field(default_factory=list)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="names; all of them by default")
    parser.add_argument("--backend", action="append", default=[])
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def cell(share: float | None) -> str:
    return "-" if share is None else f"{share:.3f}"


def calibrate(
    spec: type[OpSpec], backends: list[Backend], arguments: argparse.Namespace
) -> dict[str, Measured]:
    """The measurements of an operator by the dtype of its first output."""
    found: dict[str, Measured] = defaultdict(Measured)
    for graph, params in samples(spec, arguments):
        envelope = envelopes(graph, params)
        of = found[graph.type(graph.outputs[0]).dtype.value]
        widths = filter(None, map(width, envelope.values()))
        of.widths.extend(own.median for own in widths if own.most)
        for party, outputs in results(graph, params, backends):
            for name, expected in envelope.items():
                share = usage(expected, outputs[name])
                if share > 1:
                    print(f"{party} {share:.3g}: {graph.nodes[0]!r} {graph.values}")
                of.used[party] = max(of.used[party], share)
    return found


def samples(spec: type[OpSpec], arguments: argparse.Namespace) -> Iterator[tuple[Graph, Arrays]]:
    rng = random.Random(f"{arguments.seed}/{spec.name}")
    values = np.random.default_rng(arguments.seed)
    signatures = spec.signatures()
    for _ in range(arguments.instances):
        rank = rng.randint(spec.inputs[0].ranks[0], min(5, spec.inputs[0].ranks[1]))
        draw = Draw(rng, instances.SIZES)
        instance = instances.solved(spec, rng.choice(signatures), rank, draw)
        if instance is None:
            continue
        arrays, valid = reference_implementations.inputs_for(instance, values)
        if rng.random() < 0.35:
            arrays, valid = spread(instance, arrays, valid, rng, values)
        if valid:
            yield single(instance), {f"x{i}": np.asarray(a) for i, a in enumerate(arrays)}


def spread(
    instance: OpInstance,
    arrays: list[np.ndarray],
    valid: bool,
    rng: random.Random,
    values: np.random.Generator,
) -> tuple[list[np.ndarray], bool]:
    """The arrays with magnitudes spread over some decades, if the domain admits that."""
    decades = rng.choice([1, 2, 4])
    with np.errstate(over="ignore"):
        wide = [
            (a * 10.0 ** values.uniform(-decades, decades, a.shape)).astype(a.dtype)
            if is_floating(a)
            else a
            for a in arrays
        ]
    finite = all(np.isfinite(plain(a)).all() for a in wide)
    good = finite and reference_implementations.in_domain(instance.op, wide)
    return (wide, True) if good else (arrays, valid)


def single(instance: OpInstance) -> Graph:
    """The graph of one application, inputs x0, x1 ... and outputs y0, y1 ..."""
    outputs = instance.op.type_transfer(*instance.types)
    ins = [f"x{i}" for i in range(len(instance.types))]
    outs = [f"y{i}" for i in range(len(outputs))]
    types = zip([*ins, *outs], [*instance.types, *outputs])
    node = Node(instance.op, tuple(ins), tuple(outs))
    return Graph({n: Value(n, t) for n, t in types}, [node], ins, [], outs)


def results(graph: Graph, params: Arrays, backends: list[Backend]) -> Iterator[tuple[str, Arrays]]:
    """Every party's outputs; backends that cannot run the graph are left out."""
    arrays = [params[n] for n in graph.inputs]
    yield (
        "pytorch",
        dict(zip(graph.outputs, reference_implementations.run_torch(graph.nodes[0].op, arrays))),
    )
    model = emit_model(graph, {}, max(20, graph.nodes[0].op.since)).SerializeToString()
    for backend in backends:
        try:
            imported = backend.import_model(model)
        except Exception:
            continue
        for level in backend.default_levels():
            try:
                outputs = backend.compile(imported, level)(params)
            except Exception:
                continue
            yield f"{backend.name}/{level}", outputs


def usage(expected: Envelope, actual: np.ndarray) -> float:
    """The largest deviation from the reference as a share of what the envelope admits.

    0 for an exact result, 1 at the edge, above 1 outside; infinite for a wrong discrete element,
    a NaN, or another shape or dtype. Elements that are not comparable do not count.
    """
    if actual.dtype != expected.dtype.numpy or actual.shape != expected.ref.shape:
        return np.inf
    if not expected.dtype.is_float:
        return np.inf if outside(expected, actual).any() else 0.0
    with np.errstate(all="ignore"):
        off = actual.astype(np.float64) - expected.ref
        room = np.where(off > 0, expected.hi - expected.ref, expected.ref - expected.lo)
        share = np.abs(off) / (room + expected.ulp)
    share = np.where(expected.any | (off == 0), 0.0, np.nan_to_num(share, nan=np.inf))
    return float(share.max(initial=0.0))


if __name__ == "__main__":
    sys.exit(main())
