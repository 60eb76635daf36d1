"""Checks that the exporters agree with PyTorch on every signature of every operator and on random
graphs.

Each instance is exported by every exporter at every opset asked for; ONNX Runtime with
optimisations off (onnx.reference where it has no kernel) must compute what PyTorch computes,
within the rounding error that the operator grants. Prints progress, a table and what failed.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import torch
from nnfuzz.backends.onnxruntime import OnnxRuntime

from nnfuzz.backend.target import Target
from nnfuzz.check import instances as draws
from nnfuzz.check import reference_implementations as references
from nnfuzz.check.agreement import Expected
from nnfuzz.check.runtimes import REFERENCE, Unavailable, runtime_of
from nnfuzz.check.versions import admitted_by_schema, legal_opsets
from nnfuzz.compare.verdict import judge as judge_outputs
from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.symbolic import Symbolic
from nnfuzz.inputs.search import Found, NotFound, search
from nnfuzz.ir.graph import Graph, Node, Value
from nnfuzz.materialize.errors import ExportError, GraphFault, OpsetError
from nnfuzz.materialize.exporters import Exporter, exporters
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.operator import OpSpec
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.operators.unexportable import unknown_dtype
from nnfuzz.operators.waiver import Waivers

MODEL = Target("model")
RUNTIMES = {"onnxruntime": runtime_of(OnnxRuntime()), **REFERENCE}


@dataclass
class Tally:
    """Outcomes by exporter and opset; failures by (exporter, operator, kind, reason)."""

    counts: collections.Counter = field(default_factory=collections.Counter)
    failures: dict = field(default_factory=lambda: collections.defaultdict(list))
    seconds: dict = field(default_factory=lambda: collections.defaultdict(list))

    def add(self, exporter: str, opset: int, name: str, kind: str, reason: str, what: str) -> None:
        self.counts[exporter, opset, kind] += 1
        if kind not in ("agrees", "unconfirmed"):
            self.failures[exporter, name, kind, reason].append((opset, what))


def one_operator_graph(instance: draws.OpInstance, constant: bool) -> Graph:
    """Inputs (or weights, which exporters fold) x0, x1 ..., outputs y0, y1 ..."""
    outputs = instance.op.type_transfer(*instance.types)
    ins = [f"x{i}" for i in range(len(instance.types))]
    outs = [f"y{i}" for i in range(len(outputs))]
    values = {n: Value(n, t) for n, t in zip([*ins, *outs], [*instance.types, *outputs])}
    node = Node(instance.op, tuple(ins), tuple(outs))
    return Graph(values, [node], [] if constant else ins, ins if constant else [], outs)


def judge(
    exporter: Exporter,
    opset: int,
    op: OpSpec,
    graph: Graph,
    arrays: Sequence[np.ndarray],
    waivers: Waivers,
) -> tuple[str, str]:
    """(kind, reason) for one export."""
    fed = {f"x{i}": array for i, array in enumerate(arrays)}
    try:
        data = exporter.export(graph, fed, fed, opset)
    except ExportError as error:
        cause = error.__cause__
        return "export error", f"{type(cause).__name__}: {str(cause).strip().splitlines()[0][:110]}"
    model = onnx.load_from_string(data)
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return "invalid model", str(error).strip().splitlines()[0][:150]
    return compared(op, model, arrays, [] if graph.weights else arrays, waivers)


def compared(
    op: OpSpec,
    model: onnx.ModelProto,
    arrays: Sequence[np.ndarray],
    fed: Sequence[np.ndarray],
    waivers: Waivers,
) -> tuple[str, str]:
    """Run the model; the first runtime that agrees decides."""
    expected = Expected.of(op, arrays)
    opset = next(known.version for known in model.opset_import if not known.domain)
    distrusted = {
        d.implementation for d in waivers.covering(op, opset, [*map(references.type_of, arrays)])
    }
    reasons = []
    for name, run in RUNTIMES.items():
        if name in distrusted:
            continue
        try:
            text = expected.contradicts(run(model, fed))
        except Unavailable:
            continue
        except Exception as error:
            text = str(error).splitlines()[0][:150]
        if not text:
            return "agrees", ""
        reasons.append(f"{name}: {text}")
    return ("differs", "; ".join(reasons)) if reasons else ("unconfirmed", "no runtime")


def instances_of(
    spec: type[OpSpec], count: int, seed: int
) -> Iterator[tuple[draws.OpInstance, list[np.ndarray]]]:
    """`count` solved instances of every signature, with inputs in the operator's domain."""
    draw = Draw(random.Random(f"{seed}:{spec.name}"), draws.SIZES)
    values = np.random.default_rng(draw.rng.getrandbits(32))
    lo, hi = spec.inputs[0].ranks
    for signature in spec.signatures():
        for _ in range(count):
            instance = draws.solved(spec, signature, draw.integer(lo, min(hi, 5)), draw)
            if instance is not None:
                arrays, inside = references.inputs_for(instance, values)
                if inside:
                    yield instance, arrays


def generated(instance: draws.OpInstance, exporter: str, opset: int) -> bool:
    """Whether ONNX admits the instance's signature and the exporter knows its dtypes."""
    output = instance.op.type_transfer(*instance.types)[0].dtype
    patterns = instance.op.patterns(len(instance.types))
    binding = {p.var: t.dtype for p, t in zip(patterns, instance.types)}
    return opset in legal_opsets(type(instance.op), (binding, output)) and not unknown_dtype(
        exporter, [*binding.values(), output]
    )


def survey(
    spec: type[OpSpec],
    waivers: Waivers,
    chosen: Sequence[Exporter],
    opsets: Sequence[int],
    count: int,
    seed: int,
    known: bool,
    constant: bool,
    tally: Tally,
) -> None:
    """Judge one operator; `known` counts what the spec declares as unexportable, too."""
    for instance, arrays in instances_of(spec, count, seed):
        graph = one_operator_graph(instance, constant)
        for exporter in chosen:
            for opset in opsets:
                if not generated(instance, exporter.name, opset):
                    continue
                if not known and instance.op.refusal(exporter.name, opset, *instance.types):
                    tally.counts[exporter.name, opset, "declared"] += 1
                    continue
                try:
                    kind, reason = judge(exporter, opset, instance.op, graph, arrays, waivers)
                except OpsetError:
                    continue
                except GraphFault as fault:
                    kind, reason = "fault of the spec", str(fault)[:200]
                tally.add(exporter.name, opset, spec.name, kind, _general(reason), f"{instance}")


def survey_graphs(
    specs: Sequence[type[OpSpec]],
    chosen: Sequence[Exporter],
    opsets: Sequence[int],
    count: int,
    seed: int,
    tally: Tally,
) -> None:
    """Random ten-node graphs, generated for each exporter and opset and fed with valid inputs."""
    for exporter in chosen:
        for opset in opsets:
            if not exporter.opsets[0] <= opset <= exporter.opsets[1]:
                continue
            config = admitted_by_schema(GenerateConfig(exporter=exporter.name, opset=opset), specs)
            catalog = Catalog(specs, config)
            for i in range(count):
                graph = Symbolic(catalog, config).next(random.Random(f"{seed}/{i}")).graph
                found = search(graph, random.Random(i))
                if isinstance(found, NotFound):
                    tally.add(exporter.name, opset, "graph", "no input", found.reason, f"{i}")
                    continue
                start = time.perf_counter()
                kind, reason = judge_graph(exporter, opset, graph, found)
                tally.seconds[exporter.name, opset].append(time.perf_counter() - start)
                tally.add(exporter.name, opset, "graph", kind, _general(reason), f"{seed}/{i}")
                print(f"\r{exporter.name} {opset}: {i + 1}/{count}", end="  ", file=sys.stderr)


def judge_graph(exporter: Exporter, opset: int, graph: Graph, found: Found) -> tuple[str, str]:
    """(kind, reason) for a graph: outputs by ONNX Runtime against the error envelope."""
    try:
        data = exporter.export(graph, found.weights, found.inputs, opset)
    except ExportError as error:
        return "export error", str(error).splitlines()[0][:150]
    model = onnx.load_from_string(data)
    try:
        onnx.checker.check_model(model, full_check=True)
        backend = OnnxRuntime()
        program = backend.compile(backend.import_model(data), "O0")
        outputs = program(found.inputs)
    except Exception as error:
        kind = "unconfirmed" if "NOT_IMPLEMENTED" in str(error) else "invalid model"
        return kind, str(error).splitlines()[0][:150]
    verdict = judge_outputs(graph, {**found.inputs, **found.weights}, {MODEL: outputs})
    wrong = verdict.mismatches[MODEL]
    return ("differs", f"{graph.producer().get(wrong[0].output)}") if wrong else ("agrees", "")


def _general(reason: str) -> str:
    """A reason without its numbers, so that equal ones are listed once."""
    return reason if "Exporting the operator" in reason else reason.split(" elements differ")[0]


def report(tally: Tally, examples: int) -> None:
    kinds = sorted({kind for _, _, kind in tally.counts})
    rows = sorted({(exporter, opset) for exporter, opset, _ in tally.counts})
    print(f"{'exporter':12} {'opset':>5} " + " ".join(f"{k:>17}" for k in kinds))
    for exporter, opset in rows:
        cells = " ".join(f"{tally.counts[exporter, opset, k]:>17}" for k in kinds)
        print(f"{exporter:12} {opset:>5} {cells}")
    for (exporter, opset), seconds in sorted(tally.seconds.items()):
        print(
            f"{exporter} {opset}: {1e3 * float(np.median(seconds)):.2f} ms a graph, runs included"
        )
    for (exporter, name, kind, reason), cases in sorted(tally.failures.items()):
        opsets = sorted({opset for opset, _ in cases})
        print(f"\n{exporter} {name}: {kind}, opsets {opsets}, {len(cases)} times\n    {reason}")
        for what in list(dict.fromkeys(what for _, what in cases))[:examples]:
            print(f"    {what[:200]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", help="operator names; all by default")
    parser.add_argument("--exporters", default="direct,torchscript", help="comma-separated")
    parser.add_argument("--opsets", default="13,20", help="comma-separated")
    parser.add_argument("--instances", type=int, default=1, help="per signature")
    parser.add_argument("--graphs", type=int, default=50, help="random graphs; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--known", action="store_true", help="include declared failures")
    parser.add_argument("--constant", action="store_true", help="feed operators by weights")
    parser.add_argument("--examples", type=int, default=2, help="printed per failure")
    options = parser.parse_args()
    torch.set_num_threads(1)
    np.seterr(all="ignore")
    registry, available = OpRegistry.load(), exporters()
    specs = [registry.get(n) for n in options.operators] or registry.specs()
    chosen = [available[n] for n in options.exporters.split(",")]
    opsets = [int(o) for o in options.opsets.split(",")]
    tally = Tally()
    start = time.perf_counter()
    for i, spec in enumerate(specs, 1):
        survey(
            spec,
            registry.waivers,
            chosen,
            opsets,
            options.instances,
            options.seed,
            options.known,
            options.constant,
            tally,
        )
        seconds = time.perf_counter() - start
        print(f"\r{i}/{len(specs)} {spec.name:20} {seconds:4.0f} s", end="", file=sys.stderr)
    if options.graphs:
        survey_graphs(specs, chosen, opsets, options.graphs, options.seed, tally)
    print(file=sys.stderr)
    report(tally, options.examples)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
