"""Attribution: who is wrong, by levels, backends and exporters."""

from __future__ import annotations

import numpy as np

from nnfuzz.compare.attribute import Party, Run, attribute

GOOD, BAD, WORSE = ({"y": np.float32([v])} for v in (1, 2, 3))


def run(backend, level, outputs):
    return Run(backend, level, outputs is GOOD, outputs)


def accused(*runs, **kwargs) -> Party:
    return attribute([run(*r) for r in runs], "a", **kwargs).party


def test_nobody():
    assert accused(("a", "O0", GOOD), ("a", "O1", GOOD)) is Party.NONE


def test_optimiser_when_the_plain_level_agrees():
    found = attribute([run("a", "O0", GOOD), run("a", "O1", BAD), run("b", "O0", GOOD)], "a")
    assert (found.party, found.backend, found.level) == (Party.OPTIMISER, "a", "O1")
    assert "b agrees" in found.evidence


def test_importer_or_kernel_when_all_levels_are_wrong():
    found = attribute([run("a", "O0", BAD), run("a", "O1", BAD), run("b", "O0", GOOD)], "a")
    assert found.party is Party.IMPORTER_OR_KERNEL
    assert "in the same way" in found.evidence
    other = attribute([run("a", "O0", BAD), run("a", "O1", WORSE)], "a")
    assert "in different ways" in other.evidence


def test_exporter_when_the_direct_lowering_agrees():
    runs = [("a", "O0", BAD), ("a", "O1", BAD)]
    assert accused(*runs, direct=[run("a", "O0", GOOD)]) is Party.EXPORTER
    assert accused(*runs, direct=[run("a", "O0", BAD)]) is Party.IMPORTER_OR_KERNEL


def test_reference_when_everyone_is_off():
    runs = [("a", "O0", BAD), ("a", "O1", BAD), ("b", "O0", BAD)]
    assert accused(*runs) is Party.REFERENCE
    assert accused(*runs, torch_agrees=False) is Party.REFERENCE
    assert accused(*runs, torch_agrees=True) is Party.EXPORTER
