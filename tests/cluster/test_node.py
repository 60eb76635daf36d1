"""A node of a cluster."""

from __future__ import annotations

import pytest

from nnfuzz.cluster.node import Link, _held, tidy
from nnfuzz.records.lending import Lent, NodeReport
from nnfuzz.records.observer import CampaignSnapshot
from nnfuzz.store.database import StoreError


def test_what_lost_nodes_have_left_is_removed(tmp_path):
    (tmp_path / "gone" / "campaign").mkdir(parents=True)
    with _held(tmp_path / "here"), _held(tmp_path / "there"):
        tidy(tmp_path)
        assert sorted(p.name for p in tmp_path.iterdir()) == ["here", "there"]
        with pytest.raises(StoreError, match="another process"):
            _held(tmp_path / "here")
    tidy(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_what_could_not_be_said_is_said_again():
    heard, silent = [], True

    def call(report, status):
        if silent:
            raise ConnectionError("killed")
        heard.append((report, status))
        return Lent()

    link = Link(call, "host", "n1")
    link.note("a note")
    link.update(CampaignSnapshot("fuzzing", 9.0, None, 4, 3, 2.5, {"ok": 3}, 0, 0, 0, 0, 0.5))
    with pytest.raises(OSError):
        link.sync(NodeReport("n"))
    silent = False
    assert link.sync(NodeReport("n")) == link.sync(NodeReport("n")) == Lent()
    assert [shown.notes for _, shown in heard] == [("a note",), ()]
    assert str(heard[0][1]) == "host: fuzzing, 3 tests, 2.5/s"
