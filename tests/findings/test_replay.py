"""Replaying: reproduced, fixed, failing in another way; regenerated test cases."""

from dataclasses import replace

import pytest

from nnfuzz.findings.replay import ReplayResult, replay_export, replay_finding
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Numbered
from nnfuzz.triage.signature import export_failure

from .conftest import BENCH


@pytest.mark.parametrize(
    "found, now, answer",
    [
        ("value", "value", ReplayResult.REPRODUCED),
        ("value", "none", ReplayResult.FIXED),
        ("value", "shape", ReplayResult.DIFFERENT),
        ("raise", "raise", ReplayResult.REPRODUCED),
        ("raise", "raise_all", ReplayResult.REPRODUCED),
        ("raise", "unsupported", ReplayResult.UNSUPPORTED),
        ("abort", "abort", ReplayResult.REPRODUCED),
    ],
)
def test_answer(found, now, answer, finding_of, runner_of):
    finding = finding_of(f"planted,bug={found}")
    result = replay_finding(finding, runner_of(f"planted,bug={now}"), BENCH)
    assert result.answer is answer
    assert result.fails == (answer in (ReplayResult.REPRODUCED, ReplayResult.DIFFERENT))


def test_on_another_backend(finding_of, runner_of):
    result = replay_finding(finding_of("planted,bug=value"), runner_of("onnxruntime"), BENCH)
    assert result.answer is ReplayResult.FIXED
    assert {o.backend for o in result.result.outcomes} == {"onnxruntime"}


class Producer:
    def __init__(self, made):
        self.made = made

    def produce(self, job):
        assert job == Numbered(7, 3)
        return self.made


def test_exporter_failures_are_exported_again(finding_of):
    finding = finding_of("planted,bug=value")
    failure = export_failure("torchscript", "SomeError", "no cosh 1")
    finding = replace(finding, failure=failure, backend=None)
    again = NotProduced(Numbered(7, 3), "export", "no cosh 2", "SomeError")
    assert replay_export(finding, Producer(again)).answer is ReplayResult.REPRODUCED
    other = NotProduced(Numbered(7, 3), "export", "no sinh", "SomeError")
    assert replay_export(finding, Producer(other)).answer is ReplayResult.DIFFERENT
    assert replay_export(finding, Producer(finding.case)).answer is ReplayResult.FIXED
