"""`nnfuzz ops check` asks the reference implementations that it is given."""

from __future__ import annotations

from typer.testing import CliRunner

from nnfuzz.cli.main import application


def test_the_command_asks_standard_implementations(tmp_path):
    file = tmp_path / "some_implementations.py"
    file.write_text(
        "import numpy as np\n"
        "from nnfuzz.check.standard_implementation import StandardImplementation\n"
        "class Tanh(StandardImplementation):\n"
        "    def compute(self, x):\n"
        "        return np.tanh(x) + 1\n"
    )
    few = ["ops", "check", "Tanh", "--instances", "2"]
    runner = CliRunner()
    assert runner.invoke(application(), few).exit_code == 0
    wrong = runner.invoke(application(), [*few, "--implementations", str(tmp_path)])
    assert wrong.exit_code == 1 and "(standard implementation)" in wrong.stdout
