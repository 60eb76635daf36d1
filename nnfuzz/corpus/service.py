"""The service inside of a worker that makes entries of a corpus."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence

from nnfuzz.base.reading import Json
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope
from nnfuzz.corpus.entry import Arrays, Entry
from nnfuzz.corpus.jobs import CompleteEntry, ListInstances, ListKeys, MakeEntry
from nnfuzz.corpus.tolerance import Radii, why_unfit
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.features import features
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.operators.attributes import Choice
from nnfuzz.operators.operator import OpSpec
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.case_generator import QUICK
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

MISSES, PATIENCE, MOST_INSTANCES = 4, 12, 32
"""Models of one signature in a row that show no new value of an attribute, after which no more are
tried; the same while an option that the spec declares has not occurred, which may be impossible
for the signature; how many are tried at most."""


class CorpusService(Service):
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Json], cache: str = "") -> None:
        """cache: as a Producer has it."""
        self.producer = Producer(seed, CaseConfig.from_json(config), cache)

    @does(ListKeys)
    def keys(self, job: ListKeys, report: Report) -> list[SupportKey]:
        signatures = self.producer.signatures().items()
        return [SupportKey.parse(f"{name}:{key}") for name, keys in signatures for key in keys]

    @does(ListInstances)
    def instances(self, job: ListInstances, report: Report) -> list[int]:
        return list(self._instances(job.key, report))

    @does(CompleteEntry)
    def complete(self, job: CompleteEntry, report: Report) -> Entry:
        completed = self._entry(job.case, 1, report)
        return completed if isinstance(completed, Entry) else Entry(job.case)

    @does(MakeEntry)
    def make(self, job: MakeEntry, report: Report) -> Entry | NotProduced:
        made = self.producer.made(job.test, report)
        return self._entry(made, job.sets, report) if isinstance(made, TestCase) else made

    def _instances(self, key: SupportKey, report: Report) -> Iterator[int]:
        covered: set[str] = set()
        absent: set[tuple[str, object]] | None = None
        """Options of attributes that have not occurred; None before the first model."""
        misses = 0
        for number in range(MOST_INSTANCES):
            made = self.producer.made(Probe(key, number), report)
            new: set[str] = set()
            if isinstance(made, TestCase):
                new = features(made.graph).attribute_values() - covered
                op = self.producer.load(made).nodes[-1].op
                left = _options(op) if absent is None else absent
                absent = {(name, option) for name, option in left if op.attributes[name] != option}
            if new:
                yield number
            covered |= new
            misses = 0 if new else misses + 1
            if misses == (PATIENCE if absent else MISSES):
                return

    def _entry(self, case: TestCase, sets: int, report: Report) -> Entry | NotProduced:
        """The case with tolerances; NotProduced where its outputs cannot be compared."""
        report("tolerances")
        graph = self.producer.load(case)
        bounds = enclosure(graph, {**case.inputs, **case.weights}, case.expected).envelopes
        if why := why_unfit(bounds):
            return NotProduced(case.id, why, f"its outputs are {why}", graph=case.graph)
        further = list(self._further(graph, case, sets - 1))
        judged = [
            (case.expected, bounds),
            *((expected, envelopes) for _, expected, envelopes in further),
        ]
        radii = {
            name: Radii.merged(
                Radii.of(envelopes[name], arrays[name]) for arrays, envelopes in judged
            )
            for name in bounds
        }
        return Entry(
            case,
            tuple((inputs, expected) for inputs, expected, _ in further),
            {name: own.fit() for name, own in radii.items()},
            Radii.merged(radii.values()).fit(),
        )

    def _further(
        self, graph: Graph, case: TestCase, count: int
    ) -> Iterator[tuple[Arrays, Arrays, Mapping[str, Envelope]]]:
        """At most so many other inputs with outputs and envelopes, beside the same weights."""
        for number in range(1, count + 1):
            rng = random.Random(f"{case.id}/data set {number}")
            searched = search(graph, rng, QUICK, case.weights)
            if isinstance(searched, Found):
                given = {**searched.inputs, **case.weights}
                bounds = enclosure(graph, given, searched.outputs).envelopes
                if not why_unfit(bounds):
                    yield searched.inputs, searched.outputs, bounds


def corpus_service(seed: int, config: Mapping[str, Json], cache: str = "") -> CorpusService:
    """The factory that sandboxes name."""
    return CorpusService(seed, config, cache)


def _options(op: OpSpec) -> set[tuple[str, object]]:
    """The attributes that a spec declares with a fixed list of options, each with each option."""
    lists = {
        name: declared.options
        for name, declared in op.declared.items()
        if isinstance(declared, Choice) and isinstance(declared.options, Sequence)
    }
    return {(name, option) for name, options in lists.items() for option in options}
