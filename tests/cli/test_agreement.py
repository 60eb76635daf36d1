"""The page on what reference implementations say, and the command that writes it."""

from __future__ import annotations

from typer.testing import CliRunner

from nnfuzz.check.arbitration import weigh
from nnfuzz.check.report import CheckReport
from nnfuzz.cli.agreement import agreement_page, agreement_table, waivers
from nnfuzz.cli.main import application
from nnfuzz.operators.registry import OpRegistry


def weighed(*names, wanted=3):
    """What is said of operators, and the waivers on them."""
    registry = OpRegistry.load().select(names)
    reports = [CheckReport(name, forward=2) for name in registry]
    said = [weigh(spec, 0, wanted, registry.waivers) for spec in registry.specs()]
    return list(zip(reports, said)), declared_on(registry)


def declared_on(registry):
    return [(name, waiver) for name in registry for waiver in registry.waivers.of(name)]


def test_the_page_counts_answers_and_shows_examples():
    found, declared = weighed("Tanh", "Erf", "GlobalLpPool")
    text = agreement_page(found, declared, 3, "onnx 1")
    assert "3 operators; onnx.reference agrees 3 times or more with 2 of them" in text
    assert "GlobalLpPool 0 (0 confirmed)" in " ".join(text.split())
    assert "| `Tanh` | 2 | 0 of 0 | 0 of 0 | 3 |" in text
    assert "**Erf**: onnx.reference computes results in float32" in text
    assert "- 24 of 24: GlobalLpPool<p=" in text and "No registered implementation" in text
    assert "    Erf on [float64" in text and "    x0 = " in text


def test_the_terminal_shows_the_same():
    found, _ = weighed("Tanh", "Erf")
    assert agreement_table(found).row_count == 2
    lines = list(waivers(found))
    assert lines[0].startswith("Erf: onnx.reference computes results in float32")
    assert lines[1].strip().startswith("decided by Erf-13")


def test_the_command_asks_standard_implementations_and_writes_no_page_of_a_few(tmp_path):
    file = tmp_path / "some_implementations.py"
    file.write_text(
        "import numpy as np\n"
        "from nnfuzz.check.standard_implementation import StandardImplementation\n"
        "class Tanh(StandardImplementation):\n"
        "    def compute(self, x):\n"
        "        return np.tanh(x) + 1\n"
    )
    few = ["ops", "check", "Tanh", "--instances", "2", "--agreements", "2"]
    page = tmp_path / "page.md"
    runner = CliRunner()
    assert runner.invoke(application(), few).exit_code == 0
    wrong = runner.invoke(application(), [*few, "--implementations", str(tmp_path)])
    assert wrong.exit_code == 1 and "(standard implementation)" in wrong.stdout
    assert runner.invoke(application(), [*few, "--page", str(page)]).exit_code != 0
    assert not page.exists()
