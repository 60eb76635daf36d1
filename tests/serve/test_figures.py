"""Figures of a campaign over time."""

from nnfuzz.backend.outcome import Brief
from nnfuzz.ir.features import features
from nnfuzz.records.rows import TestRow
from nnfuzz.serve.figures import (
    BINS,
    MAX_POINTS,
    NO_TEST,
    TESTS,
    CampaignFigures,
    DiversityGrowth,
    discoveries,
)
from tests.report.graphs import branching


def test_figures_count_tests_by_their_worst_level():
    figures = CampaignFigures()
    parts = features(branching())
    for kind in ("ok", "unsupported", "mismatch"):
        levels = {"b": {"O0": Brief("ok"), "O1": Brief(kind)}}
        figures.add(59.9, TestRow(0, "run", 0, levels, features=parts))
    figures.add(0.0, TestRow(0, "generate", 0, features=parts))
    assert figures.heat["Conv"]["b"] == {"ok": 1, "unsupported": 1, "failed": 1}
    assert figures.occurrences["Add"] == 3
    assert figures.operators()[0] == ("Add", [figures.heat["Add"]["b"]])
    assert figures.timeline["ok"][-1] == 4 and sum(figures.timeline["mismatch"]) == 1
    assert figures.timeline[NO_TEST][0] == 1
    assert [g.points()[-1] for g in figures.curves.values()] == [(3, 4)] * 3


def test_figures_widen_as_a_campaign_goes_on():
    figures = CampaignFigures()
    for second in range(300):
        figures.add(float(second), TestRow(second, "run", 0, {"b": {"O0": Brief("ok")}}))
    assert figures.width == 8.0 and figures.timeline[TESTS][:3] == [8, 8, 8]
    assert sum(figures.timeline["ok"]) == 300 and len(figures.timeline["ok"]) == BINS


def test_findings_are_a_staircase():
    assert discoveries([], 9.0) == []
    assert discoveries([4.0, 2.0], 9.0) == [
        (0.0, 0.0),
        (2.0, 0.0),
        (2.0, 1.0),
        (4.0, 1.0),
        (4.0, 2.0),
        (9.0, 2.0),
    ]


def test_growth_is_thinned_and_ends_at_the_last_test():
    growth = DiversityGrowth()
    for number in range(5000):
        growth.add({number // 2})
    points = growth.points()
    assert len(points) <= MAX_POINTS + 1 and points[-1] == (5000, 2500)
    assert points == sorted(points) and all(abs(y - x / 2) <= 1 for x, y in points)
