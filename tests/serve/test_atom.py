"""The feed of a ledger."""

from xml.etree import ElementTree

from nnfuzz.bugs.history import BugEvent
from nnfuzz.serve.atom import MOST_ENTRIES, atom_feed

ATOM = "{http://www.w3.org/2005/Atom}"


def test_the_newest_events_stand_first_and_keep_their_identity():
    told = [BugEvent(f"numpy/{n}", "2026-11-23", f"<b>\x00 {n}") for n in range(MOST_ENTRIES + 1)]
    feed = ElementTree.fromstring(atom_feed("bugs", told, {}, "https://example.org/x/"))
    entries = feed.findall(f"{ATOM}entry")
    assert len(entries) == MOST_ENTRIES
    assert entries[0].findtext(f"{ATOM}title") == f"numpy/{MOST_ENTRIES}: <b>\\x00 {MOST_ENTRIES}"
    link = entries[0].find(f"{ATOM}link").get("href")
    assert link == f"https://example.org/x/pages/numpy/{MOST_ENTRIES}.html"
    assert entries[0].findtext(f"{ATOM}id") == f"urn:nnfuzz:event:{told[-1].id}"
    assert feed.findtext(f"{ATOM}updated") == "2026-11-23T00:00:00Z"


def test_a_ledger_without_events_has_a_feed():
    feed = ElementTree.fromstring(atom_feed("bugs", [], {}, ""))
    assert feed.findtext(f"{ATOM}id") == "urn:nnfuzz:bugs"
