"""What the end of a campaign says of how much was compared."""

from __future__ import annotations

import pytest

from nnfuzz.cli.summary import _compared


@pytest.mark.parametrize(
    "counts, lines, advice",
    [
        ({"ok": 8}, [], False),
        (
            {"ok": 5, "mismatch": 1, "exception": 2},
            ["toy: outputs of 6 of 8 runs were compared, 0 not supported, 2 gave none"],
            False,
        ),
        (
            {"unsupported": 4},
            ["toy: outputs of 0 of 4 runs were compared, 4 not supported, 0 gave none"],
            True,
        ),
    ],
)
def test_runs_without_outputs_to_compare_are_counted(counts, lines, advice):
    shown = list(_compared({"outcomes_by_backend": {"toy": counts}}))
    assert shown[: len(lines)] == lines
    assert any("nnfuzz ops --backend toy" in line for line in shown) == advice


def test_models_that_must_be_refused_are_not_compared():
    summary = {"outcomes_by_backend": {"toy": {"unsupported": 4}}, "refusals": {}}
    assert not list(_compared(summary))
