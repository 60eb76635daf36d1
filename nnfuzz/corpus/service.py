"""The service inside of a worker that makes entries of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nnfuzz.base.reading import Json
from nnfuzz.compare.edges import enclosure
from nnfuzz.corpus.jobs import ListInstances, ListKeys, MakeEntry
from nnfuzz.corpus.layout import Entry
from nnfuzz.corpus.tolerance import Radii, why_unfit
from nnfuzz.ir.features import features
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.job import Report, Service, does
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import Probe
from nnfuzz.testcase.producer import Producer

MISSES, MOST_INSTANCES = 8, 32
"""Models of one signature in a row that show no new value of an attribute, after which no more are
tried; how many are tried at most."""


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

    @does(MakeEntry)
    def make(self, job: MakeEntry, report: Report) -> Entry | NotProduced:
        made = self.producer.made(job.test, report)
        return self._entry(made, report) if isinstance(made, TestCase) else made

    def _instances(self, key: SupportKey, report: Report) -> Iterator[int]:
        covered: set[str] = set()
        misses = 0
        for number in range(MOST_INSTANCES):
            made = self.producer.made(Probe(key, number), report)
            values = features(made.graph).attribute_values() if isinstance(made, TestCase) else ()
            misses = 0 if not covered.issuperset(values) else misses + 1
            if misses == MISSES:
                return
            if not misses:
                covered.update(values)
                yield number

    def _entry(self, case: TestCase, report: Report) -> Entry | NotProduced:
        """The case with tolerances; NotProduced where its outputs cannot be compared."""
        report("tolerances")
        graph = self.producer.load(case)
        bounds = enclosure(graph, {**case.inputs, **case.weights}, case.expected).envelopes
        if why := why_unfit(bounds):
            return NotProduced(case.id, why, f"its outputs are {why}", graph=case.graph)
        radii = {name: Radii.of(own, case.expected[name]) for name, own in bounds.items()}
        each = {name: own.fit() for name, own in radii.items()}
        return Entry(case, each, Radii.merged(radii.values()).fit())


def corpus_service(seed: int, config: Mapping[str, Json], cache: str = "") -> CorpusService:
    """The factory that sandboxes name."""
    return CorpusService(seed, config, cache)
