"""Guided against unguided: what the same number of tests reaches.

    python -m scripts.bench.guidance --backend onnxruntime --tests 2000 --seeds 0,1,2
    python -m scripts.bench.guidance --planted --tests 800 --seeds 0,1,2

With --backend, campaigns run by turns, and their stores say how many different vertices there
were, and which operators of which dtypes passes have taken away. Passes are read of the same tests
in both (Backend.watched). One that changes nine of ten models says nothing and is left out. With
--planted, the toy compiler of planted/ has all of its wrong rewrites and kernels, each by
itself, and tells which of them apply: counted are models until each is found.
Counts, and no times: the load of the machine does not matter.
"""

from __future__ import annotations

import json
import random
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from nnfuzz.campaign.guidance import Guidance, Seen
from nnfuzz.campaign.schedule import begins
from nnfuzz.campaign.store import Store
from nnfuzz.compare.cheap import cheap
from nnfuzz.execute.outcome import parsed_pass
from nnfuzz.execute.registry import BackendRegistry
from nnfuzz.execute.runner import BackendRunner
from nnfuzz.execute.target import Target
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis, KeptCase
from nnfuzz.ir.features import Features, features
from nnfuzz.metrics.patterns import PassPattern, pass_patterns
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

COMMON = 0.9
"""Of the models: a pass that changes as many is one that every model meets."""
OTHER = 1000
"""Added to a seed for the tests that tell which planted bugs are rare: those that take more than a
quarter of the tests in the median of the seeds."""
Counts = dict[str, int]


# -- campaigns ------------------------------------------------------------------------------------


def campaign(folder: Path, backend: str, tests: int, seed: int, guided: bool, rest: str) -> Counts:
    """Runs a campaign and counts."""
    command = ["nnfuzz", "fuzz", "-b", backend, "--tests", str(tests), "--seed", str(seed), "-q"]
    command += ["--no-reduce", "--out", str(folder), *rest.split()]
    command += ["--guidance" if guided else "--no-guidance"]
    program = [str(Path(sys.executable).parent / command[0]), *command[1:]]
    done = subprocess.run(program, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        raise typer.Exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    with Store.open(folder, write=False) as store:
        found = counted(dict(store.features()), store.passes())
        summary = json.loads((folder / "summary.json").read_text())
        return {**found, "findings": len(summary["signatures"])}


def counted(
    graphs: Mapping[int, Features], passes: Mapping[int, Mapping[str, tuple[str, ...]]]
) -> Counts:
    """What some tests reach, the passes of those that told them."""
    fired = Counter(
        name
        for told in passes.values()
        for name in {parsed_pass(t)[0] for names in told.values() for t in names}
    )
    usual = {name for name, times in fired.items() if times >= COMMON * len(passes)}
    found: set[PassPattern] = set()
    for index, told in passes.items():
        own = {label: [t for t in names if parsed_pass(t)[0] not in usual]
               for label, names in told.items()}  # fmt: skip
        found |= set(pass_patterns(own, graphs[index]))
    return {
        "tests": len(graphs),
        "told": len(passes),
        "passes": len(fired),
        "pass, pattern": len({key[:3] for key in found}),
        "pass, pattern, dtype": len(found),
        "vertices": len(set().union(*(graph.vertices() for graph in graphs.values()))),
        "nodes": sum(len(graph.nodes) for graph in graphs.values()),
    }


def alone(backend: str, tests: int, seed: int, guided: bool) -> Counts:
    """The same without a campaign: no probes, refusals or findings, one process beside this one."""
    config = CaseConfig(exporter="direct", opset=18)
    producer, registry = Producer(seed, config), BackendRegistry.discover()
    guidance, waiting, epoch = Guidance(), list[Seen](), 0
    graphs: dict[int, Features] = {}
    passes: dict[int, dict[str, tuple[str, ...]]] = {}
    with BackendRunner(registry.parse(backend), registry) as runner:
        level, share = runner.backend.default_levels()[-1], runner.backend.watched
        while begins(epoch) < tests:
            emphasis = guidance.emphasis() if guided else NO_EMPHASIS
            producer.configure(replace(config, emphasis=emphasis))
            seen = []
            for index in range(begins(epoch), min(begins(epoch + 1), tests)):
                case = producer.produce(index)
                if isinstance(case, TestCase):
                    graphs[index] = features(case.graph)
                    told = runner.told_passes(case.model, level)
                    if told is not None:
                        passes[index] = {backend: tuple(told)}
                    read = random.Random(f"{seed}/{index}").random() < share
                    known = passes.get(index) if read else None
                    seen.append(_seen(index, case, known, emphasis, seed))
            if epoch:
                guidance.observe(waiting)
            waiting, epoch = seen, epoch + 1
    return counted(graphs, passes)


def by_turns(
    backend: str, tests: int, seeds: Sequence[int], rest: str, campaigns: bool
) -> Iterator[dict]:
    for seed in seeds:
        found = {}
        for guided in (False, True):
            if not campaigns:
                found[guided] = alone(backend, tests, seed, guided)
                continue
            with tempfile.TemporaryDirectory() as folder:
                found[guided] = campaign(Path(folder) / "c", backend, tests, seed, guided, rest)
        ratios = {k: round(found[True][k] / max(found[False][k], 1), 3) for k in found[True]}
        yield {"seed": seed, "plain": found[False], "guided": found[True], "ratio": ratios}


def _seen(
    index: int,
    case: TestCase,
    passes: Mapping[str, tuple[str, ...]] | None,
    emphasis: Emphasis,
    seed: int,
) -> Seen:
    kept = KeptCase(index, case.exporter, case.graph)
    mutated = emphasis.mutates(seed, index)
    return Seen(index, features(case.graph), case.motifs, passes, case.exporter, mutated, kept)


# -- planted bugs ---------------------------------------------------------------------------------


class Hunt:
    """Runs models one by one until each planted bug was found. first: models that it took."""

    def __init__(self, seed: int) -> None:
        from planted.bench import Bench
        from planted.catalogue import PLANTED_BUGS
        from planted.vocabulary import CONFIG

        self.seed, self.config = seed, CONFIG
        self.bench = Bench(seed, PLANTED_BUGS, (), CONFIG)
        self.first: dict[str, int] = {}
        self.models = 0

    def run(self, tests: int, guided: bool) -> dict[str, int]:
        """Bug -> models until it was found; tests + 1 if it was not."""
        guidance, waiting, epoch = Guidance(), list[Seen](), 0
        while begins(epoch) < tests:
            emphasis = guidance.emphasis() if guided else NO_EMPHASIS
            self.bench.producer.configure(replace(self.config, emphasis=emphasis))
            indexes = range(begins(epoch), min(begins(epoch + 1), tests))
            seen = [test for index in indexes for test in self._step(index, emphasis)]
            if epoch:
                guidance.observe(waiting)  # of the epoch before, as in a campaign
            waiting, epoch = seen, epoch + 1
        return {name: self.first.get(name, tests + 1) for name in self.bench.scores}

    def _step(self, index: int, emphasis: Emphasis) -> Iterator[Seen]:
        """What guidance learns from a model, if there is one that the compiler takes."""
        from planted.program import Unsupported, load, run

        case = self.bench.producer.produce(index)
        if not isinstance(case, TestCase):
            return
        try:
            program = load(case.model)
            base = run(program, case.inputs)
        except (Unsupported, RuntimeError):  # the toy has not every form of a window
            return
        self.models += 1
        self._judge(case, base)
        fired = tuple(told for c in self.bench.changes for told in _applied(c, program))
        yield _seen(index, case, {"planted": fired}, emphasis, self.seed)

    def _judge(self, case: TestCase, base: Any) -> None:
        """The production's way: what is close to PyTorch's result is right, the judge decides."""
        every = self.bench.changes
        self.bench.changes = [c for c in every if c.name not in self.first]
        try:
            changed = self.bench._changed(case, base, base.outputs())
        finally:
            self.bench.changes = every
        doubtful = {n: o for n, o in changed.items() if not cheap(case.expected, o)}
        if doubtful:
            targets = {Target(f"planted {name}"): name for name in doubtful}
            outputs = {target: doubtful[name] for target, name in targets.items()}
            wrong = self.bench.producer.judge(case, outputs).mismatches
            self.first |= {targets[t]: self.models for t in targets if wrong[t]}


def _applied(change: Any, program: Any) -> Iterator[str]:
    """What the toy compiler tells of a change as a pass: the operators that it makes others of."""
    changed = change.apply(program)
    if changed is not None:
        nodes = [id(node) for node in changed.nodes]
        gone = sorted({node.op for node in program.nodes if id(node) not in nodes})
        yield f"{change.name}({'+'.join(gone)})"


def planted_by_turns(tests: int, seeds: Sequence[int]) -> Iterator[dict]:
    # Other tests tell what is rare: those that are compared would favour one of the two.
    others = [Hunt(seed + OTHER).run(tests, False) for seed in seeds]
    rare = [n for n in others[0] if statistics.median(found[n] for found in others) > tests / 4]
    first: dict[bool, dict[str, list[int]]] = {False: {}, True: {}}
    for seed in seeds:
        for guided in (False, True):
            found = Hunt(seed).run(tests, guided)
            for name, number in found.items():
                first[guided].setdefault(name, []).append(number)
            late = [name for name, number in found.items() if number > tests]
            median = statistics.median(found[name] for name in rare)
            yield {"seed": seed, "guided": guided, "not found": late, "rare, median": median}
    rows = {n: [statistics.median(first[guided][n]) for guided in first] for n in sorted(rare)}
    rows = {name: row for name, row in rows.items() if min(row) <= tests}  # somebody found it
    ratios = [plain / guided for plain, guided in rows.values()]
    yield {"rare": rows, "earlier by (median of ratios)": round(statistics.median(ratios), 2)}


def main(
    backend: Annotated[list[str] | None, typer.Option(help="Compilers, one after another.")] = None,
    tests: Annotated[int, typer.Option(help="Per campaign.")] = 2000,
    seeds: Annotated[str, typer.Option(help="With commas between.")] = "0,1,2",
    planted_bugs: Annotated[bool, typer.Option("--planted", help="Planted bugs.")] = False,
    rest: Annotated[str, typer.Option(help="Further options of nnfuzz fuzz.")] = "",
    campaigns: Annotated[
        bool, typer.Option(help="Whole campaigns, or models that are built and nothing else.")
    ] = True,
) -> None:
    import torch

    torch.set_num_threads(1)
    numbers = [int(number) for number in seeds.split(",")]
    for name in backend or []:
        rows = []
        for row in by_turns(name, tests, numbers, rest, campaigns):
            rows.append(row["ratio"])
            print(json.dumps(row), flush=True)
        middle = {k: statistics.median(row[k] for row in rows) for k in rows[0]}
        print(json.dumps({"backend": name, "median ratio": middle}), flush=True)
    if planted_bugs:
        for row in planted_by_turns(tests, numbers):
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    typer.run(main)
