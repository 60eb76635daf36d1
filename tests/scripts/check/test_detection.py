"""The measure of `nnfuzz check` finds what is planted at its node, and says what it does not."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from scripts.check import detection
from scripts.check.detection import PLANTS, Plant, planted


def invoked(only: str):
    """What the script does with the models of a name."""
    app = typer.Typer()
    app.command()(detection.main)
    return CliRunner().invoke(app, ["--only", only])


def test_a_wrong_kernel_is_found_at_its_node():
    done = invoked("square")
    assert done.exit_code == 0 and "1 of 1 planted faults found, 1 at their node" in done.output


@pytest.mark.slow
def test_what_is_not_there_is_missed_and_the_exit_code_says_so(monkeypatch):
    monkeypatch.setattr(Plant, "value", lambda plant, model: "nowhere")
    done = invoked("square")
    assert "by hand, ReduceMean other_axis: MISSED: right" in done.output
    assert done.exit_code == 1 and "0 of 1 planted faults found" in done.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counted", "conv1d"])
def test_changed_results_and_other_attributes_are_found(name):
    (plant,) = (plant for plant in PLANTS if plant.model == name)
    assert planted(plant, plant.load()) == "found"
