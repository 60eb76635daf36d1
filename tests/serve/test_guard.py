"""Requests that are refused."""

import re

import pytest

from nnfuzz.serve.guard import is_loopback
from tests.serve.conftest import client_of

TOKEN = "a-token-of-some-length"


def test_only_the_own_script_may_run(client):
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert re.search(r"script-src 'sha256-[\w+/=]{44}';", policy) and "default-src 'none'" in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


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
