"""Keys that a reduced finding has beside those of its failure."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nnfuzz.campaign.reduction import keys_of
from nnfuzz.triage.keys import same
from nnfuzz.triage.signature import EVERYWHERE, OPTIMISED, Signature, digest_of


def keys(levels, localised, **parts):
    """The keys of a wrong number at some levels. localised: what the localisation says."""
    parts = {"levels": levels, "wrong": "number", "backend": "toy", **parts}
    reduced = SimpleNamespace(campaign={}, localisation=localised)
    return keys_of(reduced, SimpleNamespace(), Signature(digest_of(parts), "", parts))


@pytest.mark.parametrize(
    ("localised", "one"),
    [
        ({"ablation": [["Fuse"]], "passes": []}, True),
        ({"ablation": [["Fuse"]], "passes": ["Fuse"]}, False),
        ({"ablation": [], "passes": []}, False),
        (None, False),
    ],
)
def test_levels_tell_causes_apart_unless_no_pass_is_one(localised, one):
    always = keys(EVERYWHERE, None, operator="TopK")
    assert same(keys(OPTIMISED, localised, operator="TopK"), always) is one
    assert not same(keys(OPTIMISED, localised, operator="Sort"), always)
