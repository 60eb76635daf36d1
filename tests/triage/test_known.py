import pytest

from nnfuzz.triage.known import KnownError, KnownFailures
from nnfuzz.triage.signature import Signature

TEXT = """# known to the maintainers
0123456789ab onnxruntime: wrong value   # issue 1

fedcba987654
"""


def test_fires_and_counts():
    known = KnownFailures.parse(TEXT)
    assert len(known) == 2 and "fedcba987654" in known
    assert known.fires(Signature("0123456789ab", "")) and known.fires("0123456789ab")
    assert not known.fires("000000000000")
    assert known.fired() == {"0123456789ab": 2}
    assert known.unused() == ["suppression fedcba987654 never fired: it may be obsolete"]


def test_unused_tells_the_note():
    first = KnownFailures.parse(TEXT).unused()[0]
    assert first.endswith("(onnxruntime: wrong value): it may be obsolete")


def test_damaged_line_is_named():
    with pytest.raises(KnownError, match=r"line 2: 'xyz'"):
        KnownFailures.parse("0123456789ab\nxyz\n")


def test_load(tmp_path):
    (tmp_path / "known").write_text(TEXT)
    assert KnownFailures.load(tmp_path / "known").hashes() == ("0123456789ab", "fedcba987654")
