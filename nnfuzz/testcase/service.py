"""The service inside of a producer's worker: makes test cases, judges outputs.

Jobs, by the header's "do":
  produce  {"index": i}  -> {"case": header of TestCase.to_frame()} with its blobs,
                            or {"failed": NotProduced.to_json()}
  probe    {"signature": key, "instance": k, "exporter": name} -> the same, for a model of that
           operator alone; without a name, the first exporter's
  signatures {} -> {"signatures": {exporter: [key, ...]}, "variables": {operator: [input, ...]},
                    "notes": [line for the user, ...]}
  configure {"config": CaseConfig.to_json()} -> {}; the next jobs are done under it
  lower    {"case": header} with the case's blobs -> blob "model", the direct lowering
  expose   {"case": header} with the case's blobs -> the case with every value as an output
  lift     the same -> the case in the next wider floating dtypes
  judge    {"case": header, "parties": [[backend, level], ...], "outputs": those to look at, none
           for all} with the case's blobs and one blob "party/K/NAME" per output of party K
           -> {"verdict": Verdict.to_json()}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nnfuzz.testcase.case import CaseConfig, NotProduced, TestCase

_REFUSALS = (
    "KeyError",
    "ValueError",
    "FileNotFoundError",
    "NothingLeft",
    "OpsetError",
    "SeedError",
)


def blames_settings(error_type: str) -> bool:
    """Whether a producer that raises this while it starts refuses its configuration."""
    return error_type.rpartition(".")[2] in _REFUSALS


class ProducerService:
    """One per worker; loads operator specs once."""

    def __init__(self, seed: int, config: Mapping[str, Any]) -> None:
        from nnfuzz.testcase.producer import Producer

        self.producer = Producer(seed, CaseConfig.from_json(config))

    def handle(self, header: Mapping[str, Any], blobs: Mapping[str, Any], report) -> tuple:
        if header["do"] == "produce":
            return _answer(self.producer.produce(header["index"], report))
        if header["do"] == "probe":
            key, instance = header["signature"], header["instance"]
            exporter = header.get("exporter")
            return _answer(self.producer.probe(key, instance, report, exporter))
        if header["do"] == "signatures":
            variables = self.producer.variables()
            answer = {"signatures": self.producer.signatures(), "variables": variables}
            return {**answer, "notes": list(self.producer.notes)}, {}
        if header["do"] == "configure":
            self.producer.configure(CaseConfig.from_json(header["config"]))
            return {}, {}
        if header["do"] == "lower":
            case = TestCase.from_frame(header["case"], blobs)
            return {}, {"model": self.producer.lower(case)}
        if header["do"] == "expose":
            return _answer(self.producer.expose(TestCase.from_frame(header["case"], blobs)))
        if header["do"] == "lift":
            return _answer(self.producer.lift(TestCase.from_frame(header["case"], blobs)))
        if header["do"] == "judge":
            return {"verdict": self._judge(header, blobs)}, {}
        raise ValueError(f"unknown job {header['do']!r}")

    def _judge(self, header: Mapping[str, Any], blobs: Mapping[str, Any]) -> dict[str, Any]:
        case = TestCase.from_frame(header["case"], blobs)
        outputs: list[dict[str, Any]] = [{} for _ in header["parties"]]
        for key, value in blobs.items():
            if key.startswith("party/"):
                _, number, name = key.split("/", 2)
                outputs[int(number)][name] = value
        return self.producer.judge(
            case, [tuple(p) for p in header["parties"]], outputs, header.get("outputs", ())
        )


def _answer(produced: TestCase | NotProduced) -> tuple:
    if isinstance(produced, NotProduced):
        return {"failed": produced.to_json()}, {}
    case, arrays = produced.to_frame()
    return {"case": case}, arrays


def producer_service(seed: int, config: Mapping[str, Any]) -> ProducerService:
    """The factory that sandboxes name: "nnfuzz.testcase.service:producer_service"."""
    return ProducerService(seed, config)
