"""A script of a few lines for an issue, where a small model and a short program allow one."""

from __future__ import annotations

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.text import visible
from nnfuzz.materialize.opsets import DYNAMIC
from nnfuzz.records.finding import Finding
from nnfuzz.report.inline import foreign
from nnfuzz.report.repro import inlined, output_of_finding, takes_module

MAX_LINES = 30
"""The longest script that a maintainer reads at a glance."""


def short_script(finding: Finding, program: str | None) -> str:
    """Source that runs the model at the first level that fails and prints the result beside the
    expected one; "" where it would need other files, PyTorch, nnfuzz or more than MAX_LINES.

    program: source of `def run(model, inputs, level)`, as nnfuzz.report.repro.program_of has it.
    """
    inline = inlined(finding)
    unsuited = takes_module(finding) or finding.case.exporter == DYNAMIC
    if inline is None or program is None or unsuited:
        return ""
    head = ["import ml_dtypes"] if foreign(finding.case) else []
    head += ["import numpy as np", "from onnx import parser"]
    model = ['MODEL = """', *inline["model"].strip().splitlines(), '"""']
    lines = [*head, *model, f"INPUTS = {inline['inputs']}", *program.splitlines()]
    lines += _call(finding)
    source = [line for text in lines for line in text.splitlines() if line.strip()]
    return "\n".join(source) + "\n" if len(source) <= MAX_LINES else ""


def _call(finding: Finding) -> list[str]:
    """The call that runs the model, with the expected result as a comment."""
    level, wrong = finding.failure.levels[0], output_of_finding(finding)
    call = f"run(parser.parse_model(MODEL).SerializeToString(), INPUTS, {level!r})"
    if finding.failure.kind is not OutcomeKind.MISMATCH or wrong is None:
        return [f"print({call})  # it should run"]
    expected = f", {wrong.worst.expected} at {list(wrong.worst.index)}" if wrong.worst else ""
    comment = visible(f"expected {wrong.expected or wrong.output}{expected}").replace("\n", " ")
    return [f"print({call}[{wrong.output!r}])  # {comment}"]
