"""Templates of pages."""

from nnfuzz.report.templating import environment, seconds


def test_charts():
    charts = environment(html=True).get_template("charts.svg.jinja").module
    timeline, curve = charts.timeline, charts.curve
    assert "3 &lt;b&gt; between 0 s and 2 s" in timeline({"<b>": [3, 0]}, 2.0)
    assert timeline({}, 1.0).startswith("<svg")
    assert "M46.0 128.0L" in curve("n", [(0, 0), (2, 5)])
    assert [seconds(s) for s in (1.5, 600, 9000)] == ["1.5 s", "10 min", "2 h 30 min"]
