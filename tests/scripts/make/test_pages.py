"""Pages that are made from the code have what they are about."""

from nnfuzz.vary.faults.catalogue import KINDS
from scripts.make.pages import PAGES


def test_the_pages_of_what_the_code_knows_are_whole():
    for name in ("REWRITE_RULES.md", "SKELETONS.md", "RECALL.md"):
        assert PAGES[name]().startswith("# ")
    page = PAGES["INVALID_FAULTS.md"]()
    assert all(f"| {k.name} | {k.text} | {k.clause} |" in page for k in KINDS.values())
