"""The service that makes test cases."""

from __future__ import annotations

from nnfuzz.base.writing import as_json
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.jobs import ComputeReference
from nnfuzz.testcase.producer import ProducerService


def test_the_reference_evaluator_computes_what_is_expected(case):
    service = ProducerService(0, as_json(CaseConfig(exporter="direct")))
    job = ComputeReference(case)
    outcome = job.read_answer(*service.handle(*job.to_frame(), lambda stage: None))
    assert outcome.target.form == case.exporter
    assert outcome.outputs is None or outcome.outputs.keys() == case.expected.keys()
