"""Tests at edges: what is rewritten of them."""

import numpy as np
import pytest

from nnfuzz.compare.cheap import beyond
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


def test_strange_numbers_are_told_from_others():
    assert beyond({"x": np.array([1, -0.0], np.float16)})
    assert beyond({"x": np.array([np.nan])})
    assert not beyond({"x": np.array([1e-42, 0.0], np.float32), "n": np.array([-(2**31)])})
