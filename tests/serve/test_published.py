"""Pages of what nodes have published."""

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.parts.segments import publish
from nnfuzz.records.rows import Record
from nnfuzz.serve.published import Published
from nnfuzz.serve.watch import Watch
from tests.serve.conftest import run_row
from tests.serve.test_watch import tiles


def test_published_segments_are_put_together(store, tmp_path, monkeypatch):
    depot = str(tmp_path / "depot")
    with pytest.raises(Unreadable, match="no segments"):
        Published(depot, tmp_path).fetch()
    publish(store.folder, depot)
    published = Published(depot, tmp_path)
    monkeypatch.setattr("nnfuzz.serve.published.LOOK_SECONDS", 0.0)
    published.fetch()
    camp = Watch(published.folder, depot, published.fetch)
    camp.look()
    assert tiles(camp)["tests"] == "1" and len(camp.snapshot.rows) == 3
    store.record(Record(run_row(1)))
    publish(store.folder, depot)
    camp.look()
    assert tiles(camp)["tests"] == "2"
