"""A live page says what it should, to whom it should, and nothing of a campaign becomes HTML."""

import errno
import os
import re
import shutil
import socket
import sqlite3
from types import SimpleNamespace

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.findings import page
from nnfuzz.findings.page import GONE, LivePage, Server, serve
from nnfuzz.store.store import FILE, StoreError
from tests.findings.campaigns import EVIL, finding, run_row

REPORT = "/findings/planted-exception-s1/report.md"


def tiles(live):
    pairs = re.findall(r"<b>([^<]*)</b><span>([^<]*)</span>", live.html.decode())
    return {name: value for value, name in pairs}


def state(live):
    return re.search(r'<span id="state" role="status">([^<]*)<', live.html.decode())[1]


def test_the_page_shows_the_campaign(client):
    text = client.get("/").text
    assert "planted: crash of Relu" in text and "unique findings" in text
    assert text.count('class="finding"') == 3
    assert EVIL not in text and text.count("<script") == 1 and "<img" not in text
    assert "&lt;script&gt;" in text
    assert not re.search(r"(https?:)?//(?!www\.w3\.org/2000/svg)\w", text.partition("<script>")[0])


def test_a_page_that_has_not_changed_is_not_sent_again(client, live, store):
    tag = client.get("/").headers["ETag"]
    live.look()
    assert client.get("/", If_None_Match=tag).status == 304
    store.record(run_row(1))
    store.flush()
    live.look()
    answer = client.get("/", If_None_Match=tag)
    assert answer.status == 200 and answer.headers["ETag"] != tag


def test_each_test_is_read_once(live, store):
    assert tiles(live)["tests"] == "1" and tiles(live)["death events"] == "1"
    for index in (1, 2, 5):
        store.record(run_row(index))
    store.flush()
    live.look()
    assert tiles(live)["tests"] == "4"
    store.record(run_row(4), (finding(4),))
    store.flush()
    live.look()
    assert tiles(live)["tests"] == "5" and tiles(live)["unique findings"] == "4"
    assert state(live) == "running"


def test_nothing_is_written(live, store):
    folder = store.folder
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    live.look()
    LivePage(folder)
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_campaign_that_is_over_or_gone(live, store):
    store.close()
    (store.folder / "summary.json").write_text("{}")
    live.look()
    assert state(live) == "ended"
    os.utime(store.folder / "summary.json", (0, 1))  # of an earlier session
    live.look()
    assert state(live) == "running"
    shutil.move(store.folder, store.folder.with_name("elsewhere"))
    live.look()
    assert state(live) == GONE and b"holds no campaign" in live.html
    assert live.html.count(b'class="finding"') == 3
    shutil.move(store.folder.with_name("elsewhere"), store.folder)
    live.look()
    assert state(live) == "running" and b"Missing" not in live.html
    with pytest.raises(StoreError):
        LivePage(store.folder.parent)


def test_a_damaged_campaign_shows_what_there_is(store):
    store.close()
    with sqlite3.connect(store.folder / FILE) as db:
        db.execute("UPDATE tests SET outcomes = '['")
        db.execute("UPDATE findings SET reduction = '[' WHERE signature = 's3'")
    db.close()
    live = LivePage(store.folder)
    assert b"the tests" in live.html and b"Missing" in live.html and b"the findings" in live.html
    (store.folder / FILE).write_bytes(b"garbage")
    live.look()
    assert b"not the file of a campaign" in live.html


def test_files_of_findings(client, live):
    assert "cannot be read" in client.get("/").text  # there is no finding.json
    file = client.get(REPORT)
    assert file.text == f"# {EVIL}\n" and file.headers["content-type"].startswith("text/plain")
    assert "sandbox" in file.headers["content-security-policy"]
    listed = client.get("/findings/planted-exception-s1/")
    assert '"report.md"' in listed.text and "sandbox" in listed.headers["content-security-policy"]
    (live.campaign / "findings" / "planted-exception-s1" / "index.html").write_text(EVIL)
    page = client.get("/findings/planted-exception-s1/index.html")
    assert page.headers["content-type"] == "application/octet-stream"
    assert EVIL not in client.get("/findings/planted-exception-s1/").text


@pytest.mark.parametrize(
    "path",
    [
        "findings/planted-exception-s1/../../campaign.sqlite",
        "findings/planted-exception-s1/%2e%2e/%2e%2e/campaign.sqlite",
        "findings/planted-exception-s1/..%2f..%2fcampaign.sqlite",
        "findings/planted-exception-s1//etc/passwd",
        "findings/planted-exception-s1",
        "findings/planted-exception-s1/%00",
        "findings/planted-exception-s1/link",
        "findings/planted-exception-s1/pipe",
        "findings/outside/secret",
        "findings/outside/",
        "findings/../campaign.sqlite",
        "./campaign.sqlite",
        "campaign.sqlite",
        "//etc/passwd",
        "findings/none/report.md",
    ],
)
def test_nothing_but_findings_is_served(client, live, path):
    own = live.campaign / "findings" / "planted-exception-s1"
    (own / "link").symlink_to("/etc/passwd")
    os.mkfifo(own / "pipe")
    (live.campaign.parent / "secret").write_text("secret")
    (live.campaign / "findings" / "outside").symlink_to(live.campaign.parent)
    answer = client.get(f"/{path}")
    assert answer.status in (301, 404) and "secret" not in answer.text


def test_only_the_own_script_may_run(client):
    answer = client.get("/")
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', answer.text)
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy) and "default-src 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


def test_nothing_can_be_changed(client):
    for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert client.get("/", method).status == 501
    assert client.get("/", "HEAD").status == 200


@pytest.mark.parametrize(
    "host, answer",
    [
        ("localhost:8765", 200),
        ("LOCALHOST", 200),
        ("127.0.0.1:8765", 200),
        ("192.168.7.7", 421),
        ("evil.example", 421),
        ("localhost.evil.example", 421),
        ("127.0.0.1.evil.example:8765", 421),
        ("[::1].evil.example", 421),
        ("", 421),
    ],
)
def test_other_names_of_this_machine_are_refused(client, host, answer):
    assert client.get("/", host=host).status == answer


def test_a_reader_that_says_nothing_is_dropped(client, monkeypatch):
    monkeypatch.setattr(client.server.RequestHandlerClass, "timeout", 0.2)
    with socket.create_connection(client.server.server_address, timeout=10) as connection:
        connection.sendall(b"GET / HT")
        assert connection.recv(1) == b""
    with socket.create_connection(client.server.server_address, timeout=10) as connection:
        connection.sendall(b"\xff\r\n\r\n")
        while connection.recv(1 << 16):
            pass
    assert client.get("/").status == 200


def test_without_a_free_descriptor_it_waits(live, monkeypatch):
    """In place of asking the system for the reader without a pause, at the cost of a core."""
    paused = []
    monkeypatch.setattr(page.time, "sleep", paused.append)
    with Server(live, 0) as server, monkeypatch.context() as patched:
        patched.setattr(server, "socket", SimpleNamespace(accept=full))
        with pytest.raises(OSError, match="Too many open files"):
            server.get_request()
    assert paused == [page.PAUSE]


def full():
    raise OSError(errno.EMFILE, "Too many open files")


def test_a_port_that_is_taken_is_reported(client, store):
    with pytest.raises(Unreadable, match="choose another --port"):
        serve(store.folder, client.server.server_port, print)
