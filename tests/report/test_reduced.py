"""Titles of reduced findings: another sentence, the same signature."""

from nnfuzz.findings.reduced import with_title


def test_a_title_changes_neither_hash_nor_parts(finding_of):
    finding = finding_of("planted,bug=value")
    named = with_title(finding).signature
    assert named.hash == finding.signature.hash and named.parts == finding.signature.parts
    assert "wrong values" in named.title
