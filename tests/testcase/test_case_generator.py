"""Settings of the case generator."""

import pytest

from nnfuzz.testcase import case_generator
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [({}, 0.2, 0.4), ({"rewrites": 0.1}, 0.03, 0.2), ({"rewrites": 0.0}, 0, 0)],
)
def test_the_share_that_is_given_wins_over_the_usual_one(given, least, most, monkeypatch):
    monkeypatch.setattr(case_generator, "draw_rewriting", lambda model, *_: (b"after", ()))
    monkeypatch.setattr(case_generator, "form_name", lambda exporter, steps: exporter)
    config = CaseConfig(exporter="direct", edges=True, nodes=2, motifs=0, **given)
    generator = Producer(1, config).generators["direct"]
    done = sum(generator._rewritten(b"", index)[0] == b"after" for index in range(300)) / 300
    assert least <= done <= most
