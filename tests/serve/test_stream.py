"""Events of an open page."""

import asyncio
import json
import re

from nnfuzz.serve.stream import events, frame
from nnfuzz.serve.watch import PageSnapshot
from tests.serve.conftest import client_of


def test_frames_keep_their_form():
    assert frame("state", "one", 3) == "id: 3\nevent: state\ndata: one\n\n"
    assert frame("state", "a\r\nb\rc\n\nd", 4).count("data: ") == 5
    assert "\n\n" not in frame("state", "a\n\nb", 4)[:-2]


def test_events_tell_what_has_changed(watch):
    snapshots = [PageSnapshot(1), PageSnapshot(1), PageSnapshot(2, state="ended")]
    told = iter(snapshots)
    left = [len(snapshots)]

    def latest():
        left[0] -= 1
        return next(told)

    async def read():
        return [text async for text in events(latest, lambda: not left[0], pause=0.0)]

    first, *frames = asyncio.run(read())
    assert first.startswith("retry:")
    assert [json.loads(re.search("data: (.*)", text)[1])["number"] for text in frames] == [1, 2]


def test_the_stream_ends_with_the_server(watch):
    answer = client_of(watch, ended=lambda: True).get("/events")
    assert answer.headers["content-type"].startswith("text/event-stream")
