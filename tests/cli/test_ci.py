"""Options for continuous integration."""

from __future__ import annotations

import pytest

from nnfuzz.cli.ci import shard
from nnfuzz.cli.errors import UsageError


@pytest.mark.parametrize("text", ["", "3", "01/2", "0/3", "4/3", "1/0", "a/b", "1/2/3"])
def test_bad_shards(text):
    with pytest.raises(UsageError, match="write 2/8"):
        shard(text)
