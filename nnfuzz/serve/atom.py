"""The feed of a ledger: an Atom document with an entry for each event in the life of a bug."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urljoin
from xml.etree import ElementTree

from nnfuzz.base.text import visible
from nnfuzz.bugs.history import BugEvent
from nnfuzz.serve.ledger_rows import page_of

MOST_ENTRIES = 100
_EPOCH = "1970-01-01"


def atom_feed(title: str, events: Sequence[BugEvent], names: Mapping[str, str], base: str) -> bytes:
    """The newest events, the last one first.

    events: the oldest first. names: of systems, by bug. base: the address at which the dashboard
    will be; "" leaves links relative.
    """
    feed = ElementTree.Element("feed", xmlns="http://www.w3.org/2005/Atom")
    newest = list(reversed(events))[:MOST_ENTRIES]
    _add(feed, "id", base or f"urn:nnfuzz:{title}")
    _add(feed, "title", f"{title} - nnfuzz")
    _add(feed, "updated", _time(newest[0].day if newest else ""))
    ElementTree.SubElement(feed, "link", href=urljoin(base, "index.html"))
    for event in newest:
        entry = ElementTree.SubElement(feed, "entry")
        _add(entry, "id", f"urn:nnfuzz:event:{event.id}")
        _add(entry, "title", event.line)
        _add(entry, "updated", _time(event.day))
        ElementTree.SubElement(entry, "link", href=urljoin(base, page_of(event.name)))
        ElementTree.SubElement(entry, "category", term=names.get(event.name, ""))
        _add(ElementTree.SubElement(entry, "author"), "name", "nnfuzz")
    ElementTree.indent(feed)
    return ElementTree.tostring(feed, encoding="utf-8", xml_declaration=True) + b"\n"


def _add(parent: ElementTree.Element, tag: str, text: str) -> None:
    ElementTree.SubElement(parent, tag).text = visible(text)


def _time(day: str) -> str:
    return f"{day or _EPOCH}T00:00:00Z"
