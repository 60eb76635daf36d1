"""Files of known failures: hashes, and keys that reduced findings have."""

import pytest

from nnfuzz.triage.keys import KnownError, KnownFailures

TEXT = """
a258b5a34ce8 wrong shape of Range   # the next release has it
# a comment

["cause:a258b5a34ce8", "failure:mismatch"]
"""


def test_hashes_and_keys_are_read_and_written():
    known = KnownFailures.parse(TEXT.splitlines())
    assert known.hashes == {"a258b5a34ce8"} and len(known.keys) == 1
    assert KnownFailures.parse(known.lines()) == known
    assert KnownFailures.parse([]) == KnownFailures()


@pytest.mark.parametrize("line", ["operator=Pow", "[no keys"])
def test_what_cannot_be_read_is_named_with_the_fix(line):
    with pytest.raises(KnownError, match=r"known failures, line 2: .*(signature of|in JSON)"):
        KnownFailures.parse(["", line])
