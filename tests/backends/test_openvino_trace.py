"""What OpenVINO's trace says of passes."""

from __future__ import annotations

import os

import pytest
from nnfuzz.backends.openvino import OpenVino
from nnfuzz.backends.openvino_trace import Trace, bare, plainest, traced


def test_a_pass_that_reports_a_change_is_known_from_the_others():
    trace = Trace()
    trace.read(
        "m_start;M\nt;ov::pass::Fold;M;12;1\nt;Keep;M;3;0\nt;ov::pass::Fold;M;1;0\nm;M;20;1\n"
    )
    assert (trace.ran, trace.changed) == (["Fold", "Keep"], ["Fold"])


def test_names_lose_their_namespaces_alone():
    assert bare("ov::intel_cpu::pass::MulAddToFMA") == "MulAddToFMA"
    assert bare("passing") == "passing"


@pytest.mark.skipif(bool(OpenVino.missing()), reason=str(OpenVino.missing()))
def test_the_trace_ends_with_its_block_and_passes_that_always_report_a_change_say_nothing():
    backend, level = OpenVino(), OpenVino.default_levels()[-1]
    module = (plainest(), (), None)
    _, changed = backend.build_watched(module, level)
    assert not changed
    assert "NopElimination" in backend.known_passes(module, level)
    with traced() as trace:
        pass
    assert not trace.ran and "OV_ENABLE_PROFILE_PASS" not in os.environ
