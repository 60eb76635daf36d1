"""The operators that generation chooses from."""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.generate.catalog import Catalog
from nnfuzz.generate.coverage_target import CoverageTargets
from tests.generate.test_coverage_target import CONFIG, SPECS


def test_every_dtype_and_rank_of_every_operator_is_a_coverage_target():
    catalog = Catalog(SPECS, CONFIG)
    targets = CoverageTargets(catalog)
    for spec, signatures in catalog.signatures.items():
        mine = [target for target in targets.all if target.spec is spec]
        lo, hi = spec.inputs[0].ranks
        assert {target.rank for target in mine} == set(range(lo, hi + 1))
        assert {s.key for target in mine for s in target.signatures} == {s.key for s in signatures}


def test_an_operator_is_refused_by_its_name_alone():
    names = [spec.name for spec in Catalog(SPECS, CONFIG).signatures]
    left = Catalog(SPECS, replace(CONFIG, refused=frozenset(names[:1])))
    assert [spec.name for spec in left.signatures] == names[1:]
