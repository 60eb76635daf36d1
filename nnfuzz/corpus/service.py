"""The service inside of a worker that makes entries of a corpus.

Jobs, by the header's "do":
  entry      {"id": a test, "sets": data sets} -> an Entry, or {"failed": NotProduced.to_json()}
  complete   {"case": header} with the case's blobs -> an Entry, without tolerances where its
             outputs tell nothing
  keys       {} -> {"keys": ["EXPORTER:SIGNATURE", ...]}
  instances  {"key": one of these} -> {"instances": [number, ...]}: of those models of a single
             operator that show some value of an attribute first
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.edges import enclosure
from nnfuzz.compare.envelope import Envelope
from nnfuzz.corpus.entry import Arrays, Entry
from nnfuzz.corpus.tolerance import Radii, why_unfit
from nnfuzz.inputs.search import Found, search
from nnfuzz.ir.features import features
from nnfuzz.ir.graph import Graph
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.sandbox.events import Reading
from nnfuzz.sandbox.worker import Report
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.case_generator import QUICK
from nnfuzz.testcase.identity import Probe, TestId, parse_id
from nnfuzz.testcase.producer import Producer

MISSES, MOST_INSTANCES = 4, 32
"""Models of one signature in a row that show no new value of an attribute, after which no more are
tried, and how many are tried at most. Most modes have two or three values."""


class CorpusService:
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Any]) -> None:
        self.producer = Producer(seed, CaseConfig.from_json(config))

    def handle(
        self, header: Mapping[str, Any], blobs: Mapping[str, Any], report: Report
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        if header["do"] == "keys":
            found = self.producer.signatures().items()
            return {"keys": [f"{name}:{key}" for name, keys in found for key in keys]}, {}
        if header["do"] == "instances":
            return {"instances": list(self._instances(header["key"], report))}, {}
        if header["do"] == "complete":
            case = TestCase.from_frame(header["case"], blobs)
            completed = self._entry(case, 1, report)
            return (completed if isinstance(completed, Entry) else Entry(case)).to_frame()
        made = self.producer.made(parse_id(header["id"]), report)
        entry = self._entry(made, header["sets"], report) if isinstance(made, TestCase) else made
        if isinstance(entry, Entry):
            return entry.to_frame()
        return {"failed": as_json(entry)}, {}

    def _instances(self, key: str, report: Report) -> Iterator[int]:
        seen: set[str] = set()
        misses = 0
        for number in range(MOST_INSTANCES):
            made = self.producer.made(Probe(SupportKey.parse(key), number), report)
            new = (
                features(made.graph).attribute_values() - seen
                if isinstance(made, TestCase)
                else set()
            )
            if new:
                yield number
            seen |= new
            misses = 0 if new else misses + 1
            if misses == MISSES:
                return

    def _entry(self, case: TestCase, sets: int, report: Report) -> Entry | NotProduced:
        """The case with tolerances; NotProduced where its outputs tell nothing."""
        report("tolerances")
        graph = self.producer.load(case)
        bounds = enclosure(graph, {**case.inputs, **case.weights}, case.expected).envelopes
        if why := why_unfit(bounds):
            return NotProduced(case.id, why, f"its outputs are {why}", graph=case.graph)
        further = list(self._further(graph, case, sets - 1))
        judged = [(case.expected, bounds), *((expected, found) for _, expected, found in further)]
        radii = {
            name: Radii.together(Radii.of(found[name], arrays[name]) for arrays, found in judged)
            for name in bounds
        }
        return Entry(
            case,
            tuple((inputs, expected) for inputs, expected, _ in further),
            {name: own.fit() for name, own in radii.items()},
            Radii.together(radii.values()).fit(),
        )

    def _further(
        self, graph: Graph, case: TestCase, count: int
    ) -> Iterator[tuple[Arrays, Arrays, Mapping[str, Envelope]]]:
        """At most so many other inputs with outputs and envelopes, beside the same weights."""
        for number in range(1, count + 1):
            rng = random.Random(f"{case.id}/data set {number}")
            found = search(graph, rng, QUICK, case.weights)
            if isinstance(found, Found):
                given = {**found.inputs, **case.weights}
                bounds = enclosure(graph, given, found.outputs).envelopes
                if not why_unfit(bounds):
                    yield found.inputs, found.outputs, bounds


def corpus_service(seed: int, config: Mapping[str, Any]) -> CorpusService:
    """The factory that sandboxes name."""
    return CorpusService(seed, config)


def entry_job(test: TestId, sets: int) -> tuple[dict[str, Any], Reading]:
    """A job that is answered by an Entry or a NotProduced, and what reads its answer."""

    def made(header: dict[str, Any], blobs: dict[str, Any]) -> Entry | NotProduced:
        if "failed" in header:
            failed = read(NotProduced, header["failed"])
            failed.graph.checked()
            return failed
        entry = Entry.from_frame(header, blobs)
        if entry.case.id != test:
            raise ValueError(f"{entry.case.id} instead of {test}")
        return entry

    return {"do": "entry", "id": str(test), "sets": sets}, made


def complete_job(case: TestCase) -> tuple[dict[str, Any], dict[str, Any], Reading]:
    """Header and blobs of a job that is answered by an Entry, and what reads its answer."""
    header, blobs = case.to_frame()
    return {"do": "complete", "case": header}, blobs, Entry.from_frame


def keys_job() -> tuple[dict[str, Any], Reading]:
    return {"do": "keys"}, lambda header, blobs: read(list[SupportKey], header["keys"])


def instances_job(key: SupportKey) -> tuple[dict[str, Any], Reading]:
    """A job that is answered by the tests of a signature."""

    def found(header: dict[str, Any], blobs: dict[str, Any]) -> list[TestId]:
        return [Probe(key, number) for number in read(list[int], header["instances"])]

    return {"do": "instances", "key": str(key)}, found
