"""Generate many graphs and check that they use the whole vocabulary.

No operator starves (the rarest appears at least a tenth as often as the mean), and every dtype
of every required input and of the output, and every rank of the first input, occurs. Generation
only: nothing is run. Prints the figures; exits 1 if something never occurs.

    .venv/bin/python scripts/check_vocabulary.py --count 5000
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import typer
from rich.progress import track

from nnfuzz.generate.spotlight import spot_for
from nnfuzz.generate.symbolic import generate
from nnfuzz.materialize.opsets import default_opset
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer

OUTPUT = "output"


def main(
    count: int = typer.Option(5000, help="Graphs."),
    nodes: int = typer.Option(10, help="Operators per graph."),
    seed: int = typer.Option(0, help="Campaign seed."),
    exporter: str = typer.Option("direct", help="torchscript, dynamo or direct."),
    opset: int = typer.Option(0, help="ONNX opset [default: the exporter's newest]."),
) -> None:
    config = CaseConfig(nodes=nodes, exporter=exporter, opset=opset or default_opset(exporter))
    producer = Producer(seed, config)
    catalog = producer.catalog
    operators, motifs = Counter(), Counter()
    dtypes, ranks = defaultdict(Counter), defaultdict(Counter)
    for index in track(range(count), "generating"):
        rng = random.Random(f"{seed}/{index}")
        spot = spot_for(catalog, seed, index)
        made = generate(catalog, producer.generate, rng, spot=spot)
        motifs.update(name.rstrip("~") for name in made.motifs)
        for node in made.graph.nodes:
            name, types = node.op.name, made.graph.types(node.inputs)
            operators[name] += 1
            for pattern, type_ in zip(node.op.patterns(len(types)), types):
                dtypes[name, pattern.var][type_.dtype] += 1
            dtypes[name, OUTPUT][made.graph.type(node.outputs[0]).dtype] += 1
            ranks[name][types[0].rank] += 1
    missing = []
    for spec, signatures in catalog.signatures.items():
        for variable in (*spec.bound(), OUTPUT):
            admitted = {s.binding.get(variable, s.output) for s in signatures}
            never = [d.value for d in admitted if not dtypes[spec.name, variable][d]]
            missing += [f"{spec.name}: {variable} is never {', '.join(never)}"] if never else []
        lo, hi = spec.inputs[0].ranks
        never = [str(rank) for rank in range(lo, hi + 1) if not ranks[spec.name][rank]]
        missing += [f"{spec.name}: input 0 never has rank {', '.join(never)}"] if never else []
    names = [spec.name for spec in catalog.signatures]
    mean = operators.total() / len(names)
    rare = sorted(names, key=lambda name: operators[name])
    print(
        f"{len(names)} operators, {len(catalog.signature_keys())} signatures, opset {config.opset}"
    )
    print(f"mean {mean:.0f} times; rarest: " + ", ".join(f"{n} {operators[n]}" for n in rare[:8]))
    print(f"ratio of the rarest to the mean: {operators[rare[0]] / mean:.2f} (wanted: 0.1)")
    planted = [motif.name for motif in catalog.motifs]
    print(f"{motifs.total()} motifs of {len(planted)} kinds; never: ", end="")
    print(", ".join(name for name in planted if not motifs[name]) or "none")
    for line in missing:
        print("MISSING", line)
    starves = operators[rare[0]] < mean / 10
    raise typer.Exit(1 if missing or starves else 0)


if __name__ == "__main__":
    typer.run(main)
