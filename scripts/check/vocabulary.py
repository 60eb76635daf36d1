"""Generates many graphs and checks that they use the whole vocabulary.

No operator starves (the rarest appears at least a tenth as often as the mean), and every dtype of
every required input and of the output, and every rank of the first input, occurs. Nothing is run.
Prints the figures; exits with 1 if something never occurs. With several exporters it takes twice as
many graphs, since they take turns.

    python -m scripts.check.vocabulary --count 5000 --exporter direct
    python -m scripts.check.vocabulary --count 10000
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import typer
from rich.progress import track

from nnfuzz.cli.options import Exporter, Nodes, Opset, Seed
from nnfuzz.generate.engine import Generated
from nnfuzz.generate.engines import engine
from nnfuzz.ir.support_key import operators_in
from nnfuzz.library.settings import exporter_names
from nnfuzz.materialize.opsets import default_opset, opsets_up_to
from nnfuzz.operators.motif import pattern_name
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.case_generator import CaseGenerator
from nnfuzz.testcase.producer import Producer

OUTPUT = "output"


class Tally:
    """Counts of operators, motifs, dtypes by (operator, variable), and ranks of first inputs."""

    def __init__(self) -> None:
        self.operators: Counter[str] = Counter()
        self.motifs: Counter[str] = Counter()
        self._dtypes: defaultdict[tuple[str, str], Counter] = defaultdict(Counter)
        self._ranks: defaultdict[str, Counter[int]] = defaultdict(Counter)

    def add(self, made: Generated) -> None:
        self.motifs.update(pattern_name(name) for name in made.motifs)
        for node in made.graph.nodes:
            name, types = node.op.name, made.graph.types(node.inputs)
            self.operators[name] += 1
            for pattern, type_ in zip(node.op.patterns(len(types)), types):
                self._dtypes[name, pattern.var][type_.dtype] += 1
            self._dtypes[name, OUTPUT][made.graph.type(node.outputs[0]).dtype] += 1
            self._ranks[name][types[0].rank] += 1

    def missing(self, generators: Iterable[CaseGenerator]) -> Iterator[str]:
        """A line for everything that some exporter writes and that never occurred."""
        admitted: defaultdict[tuple[str, str], set] = defaultdict(set)
        specs = {}
        for generator in generators:
            for spec, signatures in generator.catalog.signatures.items():
                specs[spec.name] = spec
                for variable in (*spec.bound(), OUTPUT):
                    found = {s.binding.get(variable, s.output) for s in signatures}
                    admitted[spec.name, variable] |= found
        for (name, variable), dtypes in admitted.items():
            never = [d.value for d in dtypes if not self._dtypes[name, variable][d]]
            if never:
                yield f"{name}: {variable} is never {', '.join(never)}"
        for name, spec in specs.items():
            lo, hi = spec.inputs[0].ranks
            never = [str(rank) for rank in range(lo, hi + 1) if not self._ranks[name][rank]]
            if never:
                yield f"{name}: input 0 never has rank {', '.join(never)}"


def main(
    count: int = typer.Option(5000, help="Graphs."),
    nodes: Nodes = 10,
    seed: Seed = 0,
    exporter: Exporter = None,
    opset: Opset = None,
) -> None:
    opsets = {name: opset or default_opset(name) for name in exporter_names(exporter, opset)}
    drawn = {} if opset else opsets_up_to(opsets)
    config = CaseConfig(nodes=nodes, opsets=drawn).written_by(opsets)
    producer, tally = Producer(seed, config), Tally()
    for index in track(range(count), "generating"):
        generator = producer.generator_for(index)
        turn = index // generator.config.among
        target = generator.targets.pick(seed, turn)
        turns = generator.motif_turns(generator.catalog, index)
        rng = random.Random(f"{seed}/{index}")
        made_by = engine(config.engine, generator.catalog, generator.generate)
        tally.add(made_by.next(rng, (), target, turns))
    keys = producer.signatures()
    names = {name for found in keys.values() for name in operators_in(found)}
    mean = tally.operators.total() / len(names)
    rare = sorted(names, key=lambda name: (tally.operators[name], name))
    for name, found in keys.items():
        print(f"{name}, opset {config.only(name).opset}: {len(found)} signatures")
    print(f"{len(names)} operators, mean {mean:.0f} times; rarest: ", end="")
    print(", ".join(f"{name} {tally.operators[name]}" for name in rare[:8]))
    ratio = tally.operators[rare[0]] / mean
    print(f"ratio of the rarest to the mean: {ratio:.2f} (wanted: 0.1)")
    motifs = (
        motif for generator in producer.generators.values() for motif in generator.catalog.motifs
    )
    planted = sorted({motif.name for motif in motifs})
    print(f"{tally.motifs.total()} motifs of {len(planted)} kinds; never: ", end="")
    print(", ".join(name for name in planted if not tally.motifs[name]) or "none")
    missing = list(tally.missing(producer.generators.values()))
    for line in missing:
        print("MISSING", line)
    raise typer.Exit(1 if missing or ratio < 0.1 else 0)


if __name__ == "__main__":
    typer.run(main)
