"""Findings and their files over HTTP."""

import os
import re

import pytest

from nnfuzz.records.rows import Record
from nnfuzz.serve.findings import clamped_number, matching_rows
from tests.serve.conftest import EVIL, finding


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
