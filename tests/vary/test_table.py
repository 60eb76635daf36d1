"""The table of variations, and what a test case says of those that made it."""

from collections import Counter
from dataclasses import fields

import onnx
import pytest

from nnfuzz.operators.draw import BLOCKS
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.rewrite import variations
from nnfuzz.vary.rewrite.draft import Kind
from nnfuzz.vary.rewrite.rewriting import of_kinds, parse_form
from nnfuzz.vary.table import VARIATIONS
from nnfuzz.vary.variation import CaseDraft, VariedTest

SHARES = {"empty_share", "rewrite_share", "skeleton_share"}
"""Shares that CaseConfig makes of its settings."""


def test_every_variation_has_a_name_of_its_own_and_a_setting():
    names = [variation.name for variation in VARIATIONS]
    assert len(set(names)) == len(names)
    settings = {each.name for each in fields(CaseConfig)} | SHARES
    assert {variation.setting for variation in VARIATIONS if variation.setting} <= settings


def test_a_test_case_names_the_variations_that_made_it():
    config = CaseConfig(
        exporter="direct", nodes=8, dynamic=0.2, quantize=0.3, large=0.2, skeletons=0.3,
        edge_share=0.3, forms=0.4, spelled=0.4, rewrites=0.3, calls=0.2, slow=0.2, leak=0.2,
    )  # fmt: skip
    producer, found = Producer(1, config), Counter()
    for case in map(producer.produce, range(60)):
        if isinstance(case, TestCase):
            names = {name.partition(":")[0] for name in case.variations}
            found.update(names)
            steps = len(parse_form(case.exporter)[1])
            assert bool(steps) == bool(names & {"rewrite", "spelling", "form"}) == bool(case.plain)
            assert bool({"dynamic", "calls"} & names) == case.exporter.startswith("direct-called")
    assert set(found) >= {v.name for v in VARIATIONS} - {"opset", "fault"}


def test_some_models_have_the_sizes_in_which_kernels_compute():
    config = CaseConfig(exporter="direct", nodes=3, large=0.5, motifs=0, operators=("MatMul",))
    sizes = {True: [], False: []}
    for case in map(Producer(1, config).produce, range(30)):
        shapes = [shape for value in case.graph.inputs for shape in case.graph.shapes[value]]
        sizes["blocked" in case.variations] += shapes
    shares = {k: sum(size in BLOCKS for size in own) / len(own) for k, own in sizes.items()}
    assert shares[True] > 0.5 > 3 * shares[False]


def test_a_plain_test_case_has_no_variation():
    producer = Producer(1, CaseConfig(exporter="direct", nodes=3, motifs=0))
    plain = [producer.produce(index) for index in (1, 2, 3)]
    assert all(not case.variations for case in plain)


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [({}, 0.2, 0.4), ({"rewrites": 0.1}, 0.03, 0.2), ({"rewrites": 0.0}, 0, 0)],
)
def test_the_share_that_is_given_wins_over_the_usual_one(given, least, most, monkeypatch):
    monkeypatch.setattr(variations, "draw_rewriting", lambda model, *_: (b"after", [Step]))
    config = CaseConfig(exporter="direct", edges=True, nodes=2, motifs=0, **given)
    catalog = Producer(1, config)._generator("direct").catalog
    rewrites = variations.Rewrites(config, catalog)
    drafts = (
        rewrites.written(VariedTest(1, index, config, catalog), CaseDraft(None, "direct"))
        for index in range(300)
    )
    done = sum(draft.model == b"after" for draft in drafts) / 300
    assert least <= done <= most


class Step:
    rule = "any"


def test_a_form_writes_the_same_graph_in_another_way():
    """All forms occur; the graph, the inputs and what is expected stay."""
    forms = of_kinds(Kind.FORM, Kind.ENDS)
    plain = Producer(1, CaseConfig(exporter="direct", nodes=3, motifs=0))
    formed = Producer(1, CaseConfig(exporter="direct", nodes=3, motifs=0, forms=1.0))
    found = Counter()
    for index in range(10 * len(forms)):
        case, usual = formed.produce(index), plain.produce(index)
        _, steps = parse_form(case.exporter)
        found.update(step.rule for step in steps)
        assert len(steps) == 1 and case.plain == usual.model != case.model
        assert case.graph == usual.graph and [*case.inputs] == [*usual.inputs]
        onnx.checker.check_model(case.model, full_check=True)
    assert set(found) == set(forms)


def test_few_models_have_a_form_and_none_that_compilers_do_not_take():
    config = CaseConfig(exporter="direct", nodes=3, motifs=0, forms=0.2, unrewritten=("functions",))
    producer = Producer(1, config)
    steps = [parse_form(producer.produce(index).exporter)[1] for index in range(60)]
    rules = [step.rule for found in steps for step in found]
    assert 4 <= len(rules) <= 24 and not any("function" in rule for rule in rules)
