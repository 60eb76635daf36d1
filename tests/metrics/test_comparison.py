"""Folders side by side, as rows and JSON."""

from __future__ import annotations

import json

from nnfuzz.metrics.comparison import Counted, FolderComparison
from nnfuzz.metrics.tally import Tally
from tests.metrics.hand_made import VOCABULARY, graph


def test_two_folders_are_told_side_by_side():
    one, two = Tally(), Tally()
    one.add(graph(4), {"toy": ["fuse(Relu)", "fuse(Add)"]})
    two.add(graph(5))
    both = FolderComparison(
        [Counted("a<b>", one, {}), Counted("b", two, {"x": "torn"})], VOCABULARY
    )
    rows = {measure.name: figures for measure, figures in both.rows()}
    assert rows["models"] == ["1", "1"] and rows["passes of toy"] == ["1", ""]
    assert both.missing() == ["Abs"]
    data = json.loads(json.dumps(both.to_json()))
    first, second = data["folders"]
    assert first["passes"] == {"toy": {"fuse": 1}} and second["left_out"] == {"x": "torn"}
    assert first["attributes"][0]["values"] == {"0": 1}


def test_passes_that_run_and_changed_no_model_of_any_folder_are_idle():
    one, two = Tally(), Tally()
    one.add(graph(4), {"toy": ["fuse(Relu)"]})
    two.add(graph(5), {"toy": ["tile"]})
    folders = [Counted("a", one, {}), Counted("b", two, {})]
    both = FolderComparison(folders, VOCABULARY, {"toy": ["fuse", "fold", "tile"]})
    assert both.idle_passes() == {"toy": ["fold"]}
    assert both.to_json()["idle_passes"] == {"toy": ["fold"]}
    assert FolderComparison(folders, VOCABULARY).idle_passes() == {}
