"""The service inside of a producer's worker: makes test cases, judges outputs.

Jobs, by the header's "do":
  produce  {"id": what nnfuzz.testcase.identity.parse_id reads}
           -> {"case": header of TestCase.to_frame()} with its blobs,
           or {"failed": NotProduced.to_json()}
  signatures {} -> {"signatures": {exporter: [key, ...]}, "variables": {operator: [input, ...]},
                    "notes": [line for the user, ...]}
  configure {"config": CaseConfig.to_json()} -> {}; the next jobs are done under it
  check    {"case": header} with the case's blobs -> {}; raises Unreadable for what is no test case
  lower    {"case": header} with the case's blobs -> the case in the direct form
  expose   the same -> the case with every value as an output
  lift     the same -> the case in the next wider floating dtypes
  reference  the same -> {"release": of onnx} and a blob "NAME" per output that ONNX's reference
           evaluator computes, or {"error": what it says}
  judge    {"case": header, "targets": [target, ...], "outputs": those to look at, none for all}
           with the case's blobs and one blob "target/K/NAME" per output of target K; "habits": of
           each target, see nnfuzz.backend.deviation
           -> {"verdict": Verdict.to_json()}
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from nnfuzz.backend.deviation import NO_HABITS, Deviation, Habits
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.mismatch import Verdict
from nnfuzz.sandbox.events import Reading
from nnfuzz.sandbox.worker import Report
from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase
from nnfuzz.testcase.identity import TestId, parse_id

BLOB = "target/"
COLLECTED = (10_000, 10, 50)
"""Thresholds of the garbage collector: by default it takes a twentieth of the time of a producer,
whose test cases hold no cycles to speak of."""
_REFUSALS = (
    "KeyError",
    "ValueError",
    "RegistryError",
    "NothingLeft",
    "OpsetError",
    "SeedError",
    "Unreadable",
)


def blames_settings(error_type: str) -> bool:
    """Whether a producer that raises this while it starts refuses its configuration."""
    return error_type.rpartition(".")[2] in _REFUSALS


class ProducerService:
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Any]) -> None:
        from nnfuzz.testcase.producer import Producer

        gc.set_threshold(*COLLECTED)
        self.producer = Producer(seed, CaseConfig.from_json(config))

    def handle(
        self, header: Mapping[str, Any], blobs: Mapping[str, Any], report: Report
    ) -> tuple[Any, ...]:
        if header["do"] == "produce":
            return _answer(self.producer.made(parse_id(header["id"]), report))
        if header["do"] == "signatures":
            variables = self.producer.variables()
            answer = {"signatures": self.producer.signatures(), "variables": variables}
            return {**answer, "notes": list(self.producer.notes)}, {}
        if header["do"] == "configure":
            self.producer.configure(CaseConfig.from_json(header["config"]))
            return {}, {}
        if header["do"] == "check":
            self.producer.check(TestCase.from_frame(header["case"], blobs))
            return {}, {}
        if header["do"] in ("lower", "expose", "lift"):
            remake = getattr(self.producer, header["do"])
            return _answer(remake(TestCase.from_frame(header["case"], blobs)))
        if header["do"] == "reference":
            return _reference(TestCase.from_frame(header["case"], blobs))
        if header["do"] == "judge":
            return {"verdict": self._judge(header, blobs)}, {}
        raise ValueError(f"unknown job {header['do']!r}")

    def _judge(self, header: Mapping[str, Any], blobs: Mapping[str, Any]) -> dict[str, Any]:
        case = TestCase.from_frame(header["case"], blobs)
        targets = [Target.parse(text) for text in header["targets"]]
        outputs: dict[Target, dict[str, Any]] = {target: {} for target in targets}
        for key, value in blobs.items():
            if key.startswith(BLOB):
                number, _, name = key.removeprefix(BLOB).partition("/")
                outputs[targets[int(number)]][name] = value
        listed = header.get("habits") or [[] for _ in targets]
        habits = {t: read(tuple[Deviation, ...], own) for t, own in zip(targets, listed) if own}
        return as_json(self.producer.judge(case, outputs, header.get("outputs", ()), habits))


def _reference(case: TestCase) -> tuple[dict[str, Any], dict[str, Any]]:
    import onnx
    from onnx.reference import ReferenceEvaluator

    header: dict[str, Any] = {"release": onnx.__version__}
    try:
        session = ReferenceEvaluator(onnx.load_model_from_string(case.model))
        found = session.run(None, dict(case.inputs))
    except Exception as error:
        return {**header, "error": f"{type(error).__name__}: {error}"}, {}
    return header, dict(zip(session.output_names, map(np.asarray, found), strict=True))


# What the parent makes of answers; what these raise for is damaged (nnfuzz.sandbox.sandbox).


def read_case(header: Mapping[str, Any], blobs: Mapping[str, Any]) -> TestCase:
    """The case of an answer, with a graph that holds together and arrays for what it declares; a
    model with a fault need not take what the graph does.
    """
    case = TestCase.from_frame(header["case"], blobs)
    graph = case.graph.checked()
    arrays = {**case.inputs, **case.weights, **case.expected}
    if not all(isinstance(array, np.ndarray) for array in arrays.values()):
        raise ValueError("an input, weight or output that is no array")
    if case.fault:
        return case
    if {*graph.inputs} - {*case.inputs} or {*case.expected} - {*graph.outputs}:
        raise ValueError("inputs or outputs that are not those of the graph")
    return case


def produced_as(test: TestId) -> Reading:
    """Reads what came of a test: a TestCase or a NotProduced."""

    def produced(header: dict[str, Any], blobs: dict[str, Any]) -> TestCase | NotProduced:
        failed = read(NotProduced, header["failed"]) if "failed" in header else None
        if failed:
            failed.graph.checked()
        made = failed or read_case(header, blobs)
        if made.id != test:
            raise ValueError(f"{made.id} instead of {test}")
        return made

    return produced


def read_verdict(header: Mapping[str, Any], blobs: Mapping[str, Any]) -> Verdict:
    return read(Verdict, header["verdict"])


def _read_reference(case: TestCase, header: Mapping[str, Any], blobs: Mapping[str, Any]) -> Outcome:
    """What a "reference" job says; where the evaluator cannot run a model, it has no opinion."""
    release = read(str, header["release"])
    target = Target("onnx.reference", release, form=case.exporter)
    if error := read(str, header.get("error", "")):
        return Outcome(OutcomeKind.UNSUPPORTED, Stage.EXECUTE, target, message=error)
    if not all(isinstance(array, np.ndarray) for array in blobs.values()):
        raise ValueError("an output that is no array")
    return Outcome(OutcomeKind.OK, Stage.EXECUTE, target, outputs=dict(blobs))


def produce_job(id_: TestId) -> dict[str, Any]:
    """Header of the job that makes a test case."""
    return {"do": "produce", "id": str(id_)}


Asked = tuple[dict[str, Any], dict[str, Any], Reading]
"""Header and blobs of a job, and what reads its answer."""


def case_job(do: str, case: TestCase) -> Asked:
    """A job about a case alone, which is answered by another one."""
    header, blobs = case.to_frame()
    return {"do": do, "case": header}, blobs, read_case


def reference_job(case: TestCase) -> Asked:
    """A job that is answered by an outcome."""
    return *case_job("reference", case)[:2], partial(_read_reference, case)


def judge_job(
    case: TestCase,
    outcomes: Iterable[Outcome],
    names: Sequence[str] = (),
    habits: Mapping[str, Habits] = NO_HABITS,
) -> Asked:
    """A job that is answered by a verdict on the outcomes that have outputs.

    names: the outputs to look at; default: all. habits: by backend.
    """
    ran = [o for o in outcomes if o.outputs is not None]
    header, blobs = case.to_frame()
    for number, outcome in enumerate(ran):
        wanted = {n: a for n, a in (outcome.outputs or {}).items() if not names or n in names}
        blobs.update({f"{BLOB}{number}/{name}": array for name, array in wanted.items()})
    told = {
        "targets": [str(outcome.target) for outcome in ran],
        "outputs": list(names),
        "habits": [[as_json(habit) for habit in habits.get(o.backend, ())] for o in ran],
    }
    return {"do": "judge", "case": header, **told}, blobs, read_verdict


def _answer(produced: TestCase | NotProduced) -> tuple[Any, ...]:
    if isinstance(produced, NotProduced):
        return {"failed": as_json(produced)}, {}
    case, arrays = produced.to_frame()
    return {"case": case}, arrays


def producer_service(seed: int, config: Mapping[str, Any]) -> ProducerService:
    """The factory that sandboxes name: "nnfuzz.testcase.service:producer_service"."""
    return ProducerService(seed, config)
