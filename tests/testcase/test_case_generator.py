"""Settings of the case generator."""

from collections import Counter

import onnx
import pytest

from nnfuzz.testcase import case_generator
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.producer import Producer
from nnfuzz.vary.rewrite.rewriting import of_kinds, parse_form
from nnfuzz.vary.rewrite.rule import Kind


@pytest.mark.parametrize(
    ("given", "least", "most"),
    [({}, 0.2, 0.4), ({"rewrites": 0.1}, 0.03, 0.2), ({"rewrites": 0.0}, 0, 0)],
)
def test_the_share_that_is_given_wins_over_the_usual_one(given, least, most, monkeypatch):
    monkeypatch.setattr(case_generator, "draw_rewriting", lambda model, *_: (b"after", ()))
    monkeypatch.setattr(case_generator, "form_name", lambda exporter, steps: exporter)
    config = CaseConfig(exporter="direct", edges=True, nodes=2, motifs=0, **given)
    generator = Producer(1, config)._generator("direct")
    done = sum(generator._rewritten(b"", index)[0] == b"after" for index in range(300)) / 300
    assert least <= done <= most


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
