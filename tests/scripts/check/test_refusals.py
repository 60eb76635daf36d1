"""The bench of planted lapses finds them, and takes no refusal for one."""

from planted.careless import LAPSES
from scripts.check import refusals as bench


def test_lapses_are_found_and_refusals_are_none():
    models = bench.cases(35, 0)
    assert len(models) == 35
    assert {outcome for _, outcome in bench.answers(None, models)} <= {"refused", "unsupported"}
    for name in ("cycle-crash", "attribute-slip", "arity-assertion", "operator-accepts"):
        (lapse,) = [lapse for lapse in LAPSES if lapse.name == name]
        assert list(bench.answers(lapse, models))[-1][1] == lapse.outcome
