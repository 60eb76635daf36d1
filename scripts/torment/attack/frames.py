"""Attacks by randomly changed answers of workers, read as the parent reads them, without processes.

A refusal is an exception, for which the sandbox ends the worker. An accepted answer is used as a
campaign uses it, which must not fail.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from nnfuzz.backend.complaint import Complaint
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.runner import _outcome, checked
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read_fields
from nnfuzz.base.text import visible
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import PYTORCH
from nnfuzz.compare.mismatch import Accuracy, Distance, Element, Mismatch, MismatchKind, Verdict
from nnfuzz.experiment.judgement import accused_by, comparable_share, doubtful, with_mismatches
from nnfuzz.feedback.support import signature_keys
from nnfuzz.findings.reducer_job import ReduceFinding
from nnfuzz.ir.edges import edge_keys
from nnfuzz.ir.features import features
from nnfuzz.ir.view import GraphView
from nnfuzz.records.rows import ReductionRow
from nnfuzz.reduction.jobs import Prepare, Prepared
from nnfuzz.sandbox import wire
from nnfuzz.sandbox.events import Death, DeathKind, WorkerFault
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.record import pack, unpack
from nnfuzz.sandbox.worker import StatusPage
from nnfuzz.store.recorder import briefs
from nnfuzz.testcase.case import NotProduced, TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.jobs import Judge, ListVocabulary, Lower, Produce, Vocabulary
from nnfuzz.triage.refine import pattern_of
from nnfuzz.triage.signature import export_failure, failures
from scripts.torment.attack import Attack, Surface
from scripts.torment.attack.mutations import mutated, scrambled

JSON_GRAPH = {
    "schema": 1,
    "values": [
        ["x", "float32", [4]],
        ["w", "bfloat16", []],
        ["y", "float32", [4]],
        ["h", "float32", [4]],
    ],
    "nodes": [
        {"op": "Relu", "attributes": {"axis": 1}, "inputs": ["x"], "outputs": ["h"]},
        {"op": "Add", "attributes": {}, "inputs": ["h", "w"], "outputs": ["y"]},
    ],
    "inputs": ["x"],
    "weights": ["w"],
    "outputs": ["y"],
    "prescribed": {"w": [0.0, 1.0]},
}
GRAPH = GraphView.from_json(JSON_GRAPH)
TEST = Numbered(1, 7)
X = np.arange(4, dtype=np.float32)
CASE = TestCase(
    TEST, GRAPH, b"model", {"x": X}, {"w": np.array(1, ml_dtypes.bfloat16)}, {"y": X},
    seconds={"generate": 0.1}, motifs=("gelu",), generated_for="torchscript",
)  # fmt: skip
TARGET = Target("toy", "1.0", pipeline="O1")
GOOD = Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, seconds={"execute": 0.1})
BAD = Outcome(
    OutcomeKind.EXCEPTION, Stage.COMPILE, TARGET, "pkg.Error", "no kernel for Add_7",
    'File "a.py", line 3', complaint=Complaint(subject="no kernel", others=(("one", "a.cc"),)),
)  # fmt: skip
WRONG = Mismatch("y", MismatchKind.VALUE, wrong=2, share=0.5, worst=Element((1,), 1.0, "nan"))
VERDICT = Verdict(
    {PYTORCH: (), TARGET: (WRONG,)},
    {"y": 1.0},
    accuracy={TARGET: {"y": Accuracy(1.0, {TARGET: Distance(2.0, 1.0, None)})}},
)


@dataclass(frozen=True)
class Answer:
    """A kind of answer. use: uses the answer as a campaign does."""

    header: dict[str, Any]
    blobs: dict[str, Any]
    reading: Callable[[dict[str, Any], dict[str, Any]], Any]
    use: Callable[[Any], object] = lambda value: None

    @classmethod
    def to(cls, job: Job[Any], value: Any, use: Callable[[Any], object] = lambda value: None):
        """An answer to a job."""
        return cls(*pack(job.answer, value), job.read_answer, use)


def checked_outcome(outcome: Outcome) -> Outcome:
    """As a runner does with what it gets from its worker."""
    return checked(outcome, Target("toy", visible(outcome.target.release), pipeline="O1"))


def read_outcome(header: dict[str, Any], blobs: dict[str, Any]) -> Outcome:
    return checked_outcome(unpack(Outcome, header, blobs))


def _storable(value: Any) -> None:
    json.dumps(value, default=vars).encode()


def use_outcome(outcome: Outcome) -> None:
    _storable(briefs([outcome]))
    _storable(as_json(outcome))
    for failure in failures([outcome], None, GRAPH):
        _storable([failure.signature.title, failure.signature.hash, failure.signature.parts])
        accused_by([outcome], None, failure)
    doubtful(CASE, [outcome])


def use_produced(made: TestCase | NotProduced) -> None:
    made.digest()
    if made.graph:
        features(made.graph)
        edge_keys(made.graph)
        pattern_of(made.graph)
        signature_keys(made.graph, {"Relu": [0], "Add": [0, 1]})
        _storable(made.graph.to_json())
    if isinstance(made, NotProduced):
        export_failure(made.generated_for, made.error_type, made.message, made.traceback)
        _storable(vars(made))
    else:
        wire.encode(*pack(TestCase, made))
        doubtful(made, [Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})])
        failures([BAD], None, made.graph)


def use_verdict(verdict: Verdict) -> None:
    str(verdict)
    _storable(as_json(verdict))
    ran = [Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})]
    outcomes = with_mismatches(ran, verdict)
    comparable_share(verdict, CASE.expected)
    for failure in failures(outcomes, verdict, GRAPH):
        _storable([failure.signature.title, failure.signature.parts])
        accused_by(outcomes, verdict, failure)


def read_fault(header: dict[str, Any], blobs: dict[str, Any]) -> WorkerFault:
    """Reads a fault as the sandbox does."""
    texts = read_fields(WorkerFault, header, "error_type", "message", "traceback")
    return WorkerFault(**texts, captured="", starting=False)


def answers() -> list[Answer]:
    failed = NotProduced(TEST, "export", "cannot", "E", "trace", graph=GRAPH)
    ran = Outcome(OutcomeKind.OK, Stage.EXECUTE, TARGET, outputs={"y": X})
    row = ReductionRow("s", "ab", "t", graph=GRAPH, before=3, keys=("k",))
    vocabulary = Vocabulary({"direct": ["Add(int8)->int8"]}, {"Add": [0]})
    return [
        Answer(*pack(Outcome, replace(GOOD, outputs={"y": X})), read_outcome, use_outcome),
        Answer(*pack(Outcome, BAD), read_outcome, use_outcome),
        Answer.to(Produce(TEST), CASE, use_produced),
        Answer.to(Produce(TEST), failed, use_produced),
        Answer.to(Lower(CASE), CASE, use_produced),
        Answer.to(Judge.of(CASE, [ran]), VERDICT, use_verdict),
        Answer.to(ReduceFinding("s", "", 1, 1), row, lambda row: _storable(as_json(row))),
        Answer.to(Prepare(CASE, ()), Prepared(CASE, (1, 2), "d")),
        Answer.to(ListVocabulary(), vocabulary),
        Answer({"error_type": "E", "message": "m", "traceback": "t"}, {}, read_fault, _storable),
    ]  # fmt: skip


@contextmanager
def frames() -> Iterator[Attack]:
    kinds = answers()
    for kind in kinds:  # unchanged, all of them are taken
        kind.use(kind.reading(*wire.decode(wire.encode(kind.header, kind.blobs))))

    def attack(rng: random.Random) -> str:
        kind = rng.choice(kinds)
        try:
            header = mutated(kind.header, rng) if rng.random() < 0.7 else kind.header
            frame = wire.encode(header, kind.blobs)
        except (RecursionError, wire.WireError):
            return ""  # no frame can hold it
        if header is kind.header or rng.random() < 0.3:
            frame = scrambled(frame, rng)
        try:
            value = kind.reading(*wire.decode(frame))
        except Exception:
            return ""  # the sandbox ends the worker
        kind.use(value)
        return ""

    yield attack


@contextmanager
def pages() -> Iterator[Attack]:
    import os

    fd = os.memfd_create("page")
    page = StatusPage(fd)

    def attack(rng: random.Random) -> str:
        page._map[:] = rng.randbytes(StatusPage.SIZE)
        if rng.random() < 0.5:
            page._map[9:14] = rng.choice((b"\2  ..", b"\0....", b"\4run ", b"\3\xff\xfe\0."))
        death = Death(rng.choice([*DeathKind]), page.stage, "SIGABRT", None, "", 0.1)
        outcome = _outcome(death)
        use_outcome(Outcome(**{**vars(outcome), "target": TARGET}))
        return "" if isinstance(page.out_of_memory, bool) and page.job >= 0 else "unreadable"

    yield attack
    page.close()
    os.close(fd)


SURFACES = (
    Surface("frames", 80, frames, "answers of workers, as bytes and as JSON"),
    Surface("pages", 10, pages, "status pages of workers"),
)
