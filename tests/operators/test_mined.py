from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.check.versions import admitted_by_schema
from nnfuzz.generate.catalog import MINED, Catalog
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.generate.engines import engine
from nnfuzz.ir.expr import Var
from nnfuzz.operators.draw import Draw
from nnfuzz.operators.mined import _matched, all_motifs, as_motif, check_patterns, witness
from nnfuzz.operators.motif_file import Size
from nnfuzz.operators.registry import OpRegistry
from tests.operators.test_motif_file import PATTERN

REGISTRY = OpRegistry.load()
CONFIG = admitted_by_schema(GenerateConfig(nodes=6, motifs=1.0), REGISTRY.specs())


def graphs(motifs, count: int):
    made_by = engine("direct", Catalog(REGISTRY.specs(), CONFIG, motifs), CONFIG)
    for seed in range(count):
        made = made_by.next(random.Random(seed))
        made.graph.verify()
        yield made


def test_a_pattern_is_planted_with_other_sizes_and_dtypes():
    motif = as_motif(PATTERN)
    assert motif.mined and motif.size == 2 and motif.ranks == (2, 2)
    shapes, dtypes = set(), set()
    for made in graphs([motif], 60):
        if motif.name in made.motifs:
            nodes = [node for node in made.graph.nodes if node.op.name == "Reshape"]
            splits = [n for n in nodes if len(n.op.attributes["shape"]) == 3]
            assert splits
            shapes.add(made.graph.type(splits[0].inputs[0]).shape)
            dtypes.add(made.graph.type(splits[0].inputs[0]).dtype.value)
    assert len(shapes) > 10
    assert dtypes == {"float32", "float16"}


def test_a_size_that_is_not_decided_is_no_given_number():
    """Where the start's dimensions are to be equal, and the symbolic engine has decided one."""
    square = (Size(1, ("a",)), Size(1, ("a",)))
    draw, open_ = Draw(random.Random(0), CONFIG.sizes), Var("d", 1, 8)
    assert _matched(square, (open_, 4), PATTERN.variants[0], draw) is None
    assert _matched(square, (open_, open_), PATTERN.variants[0], draw) == {"a": open_}
    assert _matched(square, (4, 4), PATTERN.variants[0], draw) == {"a": 4}


def test_the_same_seed_plants_the_same():
    first = [made.graph.to_json() for made in graphs([as_motif(PATTERN)], 8)]
    assert first == [made.graph.to_json() for made in graphs([as_motif(PATTERN)], 8)]


def test_mined_motifs_share_a_weight():
    by_hand = [m for m in all_motifs() if not (m.mined or m.skeleton)]
    catalog = Catalog(REGISTRY.specs(), CONFIG, [*by_hand, as_motif(PATTERN)])
    weight = sum(motif.weight for motif in catalog.motifs if motif.mined)
    assert weight == pytest.approx(MINED * sum(motif.weight for motif in by_hand))


def test_the_witness_has_the_sizes_of_the_model():
    graph = witness(PATTERN, PATTERN.variants[0], REGISTRY.get)
    graph.verify()
    assert graph.type("x0").shape == (2, 32)
    assert graph.type("v2").shape == (2, 8, 4)


def test_files_of_impossible_patterns_are_refused(tmp_path):
    file = tmp_path / "bad.json"
    attributes = ({"shape": ["no"], "inferred": -1}, {"perm": [0, 2, 1]})
    bad = replace(PATTERN, variants=(replace(PATTERN.variants[0], attributes=attributes),))
    file.write_text(json.dumps(as_json(bad)))
    with pytest.raises(Unreadable, match=r"pattern mined_Reshape_Transpose") as caught:
        check_patterns([file], REGISTRY.get)
    assert "\n" not in str(caught.value)
    strange = replace(PATTERN, nodes=(replace(PATTERN.nodes[0], op="Nonsense"), PATTERN.nodes[1]))
    file.write_text(json.dumps(as_json(strange)))
    with pytest.raises(Unreadable, match=r"unknown operator 'Nonsense'"):
        check_patterns([file], REGISTRY.get)


# -- the library ------------------------------------------------------------------------------

LIBRARY = [motif for motif in all_motifs() if motif.mined]


def test_every_variant_of_the_library_is_a_valid_graph():
    from nnfuzz.opspecs.motifs.mined import MOTIF_FILES

    check_patterns(MOTIF_FILES, REGISTRY.get)


def test_the_library_is_planted():
    assert len(LIBRARY) >= 300
    planted = Counter(name.rstrip("~") for made in graphs(LIBRARY, 600) for name in made.motifs)
    mined = {motif.name for motif in LIBRARY}
    assert sum(count for name, count in planted.items() if name in mined) > 300
    assert len(mined & planted.keys()) > 100
