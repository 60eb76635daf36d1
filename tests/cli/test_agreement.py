"""What reference implementations say of operators."""

from __future__ import annotations

from typer.testing import CliRunner

from nnfuzz.check.arbitration import weigh
from nnfuzz.check.report import CheckReport
from nnfuzz.cli.commands.ops import agreement_table, waivers
from nnfuzz.cli.main import application
from nnfuzz.operators.registry import OpRegistry


def weighed(*names, wanted=3):
    """What is said of operators."""
    registry = OpRegistry.load().select(names)
    reports = [CheckReport(name, forward=2) for name in registry]
    said = [weigh(spec, 0, wanted, registry.waivers) for spec in registry.specs()]
    return list(zip(reports, said))


def test_the_table_and_the_waivers():
    found = weighed("Tanh", "Erf")
    assert agreement_table(found).row_count == 2
    lines = list(waivers(found))
    assert lines[0].startswith("Erf: onnx.reference computes results in float32")
    assert lines[1].strip().startswith("decided by Erf-13")


def test_the_command_asks_standard_implementations(tmp_path):
    file = tmp_path / "some_implementations.py"
    file.write_text(
        "import numpy as np\n"
        "from nnfuzz.check.standard_implementation import StandardImplementation\n"
        "class Tanh(StandardImplementation):\n"
        "    def compute(self, x):\n"
        "        return np.tanh(x) + 1\n"
    )
    few = ["ops", "check", "Tanh", "--instances", "2", "--agreements", "2"]
    runner = CliRunner()
    assert runner.invoke(application(), few).exit_code == 0
    wrong = runner.invoke(application(), [*few, "--implementations", str(tmp_path)])
    assert wrong.exit_code == 1 and "(standard implementation)" in wrong.stdout
