"""The dashboard of a ledger, served as the ledger changes."""

from dataclasses import replace

import pytest

pytest.importorskip("starlette")

from starlette.testclient import TestClient

from nnfuzz.serve.ledger_live import LedgerWatch
from nnfuzz.serve.server import watching
from tests.bugs.conftest import BUG, ledger
from tests.serve.test_guard import TOKEN

__all__ = ["ledger"]


@pytest.fixture
def watch(ledger):
    with watching(str(ledger.folder), print) as found:
        assert isinstance(found, LedgerWatch)
        found.look()
        yield found


def client(watch, token=None):
    names = frozenset({"testserver"})
    return TestClient(watch.application(names, token, "c"), base_url="http://testserver")


def test_the_pages_follow_the_ledger(watch, ledger):
    pages = client(watch)
    assert "Pow of bfloat16" in pages.get("/").text
    page = pages.get("/pages/numpy/pow.html")
    assert (
        page.status_code == 200 and "script-src 'sha256-" in page.headers["content-security-policy"]
    )
    ledger.put("numpy/pow", replace(BUG, title="another title"))
    watch.look()
    assert "another title" in pages.get("/index.html").text
    ledger.remove("numpy/pow")
    watch.look()
    assert pages.get("/pages/numpy/pow.html").status_code == 404


def test_nothing_else_is_served_and_a_token_is_asked_for(watch):
    pages = client(watch)
    assert pages.get("/../watch.json").status_code == 404
    assert pages.post("/").status_code == 405
    closed = client(watch, TOKEN)
    assert closed.get("/").status_code == 401
    assert closed.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200
