"""Pages tell what they should, to whom they should, and nothing of a campaign becomes HTML."""

import asyncio
import json
import os
import re
import sys

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from nnfuzz.cli.main import application as application_of_the_cli
from nnfuzz.cli.main import run
from nnfuzz.records.rows import Record
from nnfuzz.serve.app import application
from nnfuzz.serve.findings import clamped_number, matching_rows
from nnfuzz.serve.guard import is_loopback, own_names
from nnfuzz.serve.server import ServeError, serve
from nnfuzz.serve.stream import events, frame
from nnfuzz.serve.watch import PageSnapshot, Watch
from tests.serve.conftest import EVIL, finding

TOKEN = "a-token-of-some-length"


@pytest.fixture
def watch(store):
    made = Watch(store.folder, EVIL)
    made.look()
    return made


def client_of(watch, token=None, base="http://localhost:8765", **more):
    app = application(watch, own_names("127.0.0.1"), token, **more)
    return TestClient(app, base_url=base, follow_redirects=False)


@pytest.fixture
def client(watch):
    return client_of(watch)


def test_the_page_shows_the_campaign(client):
    text = client.get("/").text
    assert "planted: crash of Relu" in text and "unique findings" in text
    assert text.count('class="finding"') == 3
    assert EVIL not in text and text.count("<script") == 1 and "<img" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)\w", text.partition("<script>")[0])
    assert all(client.get(path).status_code == 200 for path in ("/figures", "/operators"))


def test_only_the_own_script_may_run(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy) and "default-src 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "query, expected",
    [
        ({}, ["s2", "s1", "s3"]),
        ({"kind": "crash"}, ["s2"]),
        ({"backend": "other"}, ["s3"]),
        ({"status": "not reduced yet"}, ["s1"]),
        ({"stage": "import"}, []),
        ({"text": "RELU float32"}, ["s2"]),
        ({"text": "s3 fuse", "backend": "planted"}, []),
        ({"sort": "new"}, ["s3", "s2", "s1"]),
        ({"sort": "times"}, ["s1", "s3", "s2"]),
        ({"sort": "nonsense", "kind": ""}, ["s2", "s1", "s3"]),
    ],
)
def test_filters(watch, query, expected):
    assert [row["signature"] for row in matching_rows(watch.snapshot.rows, query)] == expected


def test_findings_come_in_pages(client):
    text = client.get("/findings", params={"limit": 1, "offset": 1}).text
    assert re.findall(r'id="f-(\w+)"', text) == ["s1"]
    assert 'data-found="3" data-total="3"' in text
    assert client.get("/findings", params={"limit": "-1", "offset": "x"}).status_code == 200
    assert [clamped_number(t, 5, 9) for t in ("7", "99", "-1", "x", "", None, "٣")] == [
        7,
        9,
        *[5] * 5,
    ]


def test_a_finding_with_its_files(client, watch):
    text = client.get("/findings/s1").text
    assert "cannot be read" in text  # it has no finding.json
    assert client.get("/findings/s9").status_code == 404
    file = client.get("/files/findings/planted-exception-s1/report.md")
    assert file.text == f"# {EVIL}\n" and file.headers["content-type"].startswith("text/plain")
    assert "sandbox" in file.headers["content-security-policy"]


def test_other_files_are_saved_and_not_shown(client, watch):
    (watch.folder / "findings" / "planted-exception-s1" / "page.html").write_text(EVIL)
    answer = client.get("/files/findings/planted-exception-s1/page.html")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment")


@pytest.mark.parametrize(
    "path",
    [
        "findings/planted-exception-s1/../../campaign.sqlite",
        "findings/planted-exception-s1/%2e%2e/%2e%2e/campaign.sqlite",
        "findings/planted-exception-s1/..%2f..%2fcampaign.sqlite",
        "findings/planted-exception-s1//etc/passwd",
        "findings/planted-exception-s1/",
        "findings/planted-exception-s1/%00",
        "findings/planted-exception-s1/link",
        "findings/planted-exception-s1/pipe",
        "findings/outside/secret",
        "findings/../campaign.sqlite",
        "./campaign.sqlite",
        "findings/none/report.md",
    ],
)
def test_nothing_but_files_of_findings_is_served(client, watch, store, path):
    own = watch.folder / "findings" / "planted-exception-s1"
    (own / "link").symlink_to("/etc/passwd")
    os.mkfifo(own / "pipe")
    (watch.folder.parent / "secret").write_text("secret")
    (watch.folder / "findings" / "outside").symlink_to(watch.folder.parent)
    store.record(Record(None, (finding(9, folder="findings/outside"),)))
    watch.look()
    answer = client.get(f"/files/{path}")
    assert answer.status_code == 404 and "secret" not in answer.text


def test_nothing_can_be_changed(client):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.request(method, "/").status_code == 405
    assert client.head("/").status_code == 200


@pytest.mark.parametrize(
    "host, answer",
    [
        ("localhost:8765", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1:8765", 200),
        ("[::1]:8765", 200),
        ("192.168.7.7", 200),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8765", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_other_names_of_this_machine_are_refused(client, host, answer):
    assert client.get("/", headers={"host": host}).status_code == answer


def test_a_token_is_asked_for(watch):
    client = client_of(watch, TOKEN)
    for path in ("/", "/events", "/findings", "/files/findings/planted-exception-s1/report.md"):
        assert client.get(path).status_code == 401
    for told in ("", "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xe9"):
        assert client.get("/", headers={"authorization": told.encode("latin-1")}).status_code == 401
    assert client.get("/", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200
    assert client.get("/?token=wrong").status_code == 401
    assert client.get(f"/?token={TOKEN}", headers={"host": "evil.example"}).status_code == 421


def test_a_link_with_the_token_leaves_a_cookie(watch):
    client = client_of(watch, TOKEN, cookie="nnfuzz_8765")
    answer = client.get(f"/?token={TOKEN}&kind=crash")
    assert answer.status_code == 303 and answer.headers["location"] == "./?kind=crash"
    cookie = answer.headers["set-cookie"]
    assert f"nnfuzz_8765={TOKEN}" in cookie and "HttpOnly" in cookie and "lax" in cookie.lower()
    assert client.get("/?kind=crash").text.count('class="finding"') == 1
    client.cookies.clear()
    assert client.get("/").status_code == 401


@pytest.mark.parametrize("host, own", [("127.0.0.1", True), ("::1", True), ("localhost", True)])
def test_loopback(host, own):
    assert is_loopback(host) is own
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.7.7", "example.org", "")))


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


def test_what_cannot_be_served_is_told(store):
    with pytest.raises(ServeError, match="guessed"):
        serve(str(store.folder), "127.0.0.1", 0, "short", print)
    with pytest.raises(ServeError, match="choose another --port"):
        serve(str(store.folder), "203.0.113.1", 1, TOKEN, print)


def test_missing_packages_are_named(store, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "nnfuzz.serve.server")
    with pytest.raises(SystemExit) as ended:
        run(lambda: application_of_the_cli()(["serve", str(store.folder)]))
    assert ended.value.code == 2
    assert "nnfuzz serve needs uvicorn: pip install 'nnfuzz[serve]'" in capsys.readouterr().err
