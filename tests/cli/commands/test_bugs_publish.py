"""nnfuzz bugs publish."""

from tests.bugs.conftest import ledger
from tests.command import nnfuzz

__all__ = ["ledger"]


def test_a_ledger_is_published_with_the_address_of_its_feed(ledger, tmp_path):
    out = tmp_path / "site"
    told = nnfuzz(
        "bugs", "publish", ledger.folder, "--out", out, "--address", "https://example.org/x/"
    )
    assert told.returncode == 0 and told.stdout == f"1 bugs in {out}/index.html\n", told.stderr
    assert "https://example.org/x/pages/numpy/pow.html" in (out / "feed.xml").read_text()
    told = nnfuzz("bugs", "publish", tmp_path / "none", "--out", out)
    assert told.returncode == 2 and "there is no ledger" in told.stderr
    told = nnfuzz("bugs", "publish", ledger.folder, "--out", ledger.folder)
    assert told.returncode == 2 and "name a new folder" in told.stderr
