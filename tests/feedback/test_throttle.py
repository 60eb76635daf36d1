"""What is worth avoiding."""

from __future__ import annotations

from dataclasses import replace

from nnfuzz.backend.outcome import Brief
from nnfuzz.feedback.support import signature_keys
from nnfuzz.feedback.throttle import SIGNIFICANT, Throttle, association, by_operator
from nnfuzz.ir.support_key import SupportKey, edge_keys, properties
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.records.rows import TestRow

VARIABLES = {op: [0] for op in ("Relu", "Conv", "Exp", "Abs")}
KEYS = [f"{op}(float32)->float32" for op in VARIABLES]
EXP = KEYS[2]
WRONG, EXPORT = "toy mismatch compare", "dynamo exception export"


def chain(*operators, dtype="float32"):
    names = [f"v{i}" for i in range(len(operators) + 1)]
    nodes = (NodeView(op, (names[i],), (names[i + 1],)) for i, op in enumerate(operators))
    return GraphView(tuple(ValueView(name, dtype, (2,)) for name in names), tuple(nodes))


def observed(count, graph, *failures, exporter="direct", kind=WRONG):
    items = (*sorted(signature_keys(graph, VARIABLES)), *edge_keys(graph))
    failed = dict.fromkeys(failures, kind)
    return [TestRow(0, "run", 0, exporter=exporter, items=items, failures=failed)] * count


def throttle(threshold=5, keys=KEYS):
    return Throttle(threshold, list(map(SupportKey.parse, keys)))


def items(rows):
    return [row.item for row in rows]


def test_an_operator_that_often_fails_is_avoided_once():
    made = throttle()
    some = observed(4, chain("Exp", "Abs"), "a") + observed(50, chain("Abs", "Relu"))
    assert made.learn(some) == []
    (row,) = made.learn(observed(1, chain("Exp", "Abs"), "a") + observed(5, chain("Exp")))
    assert (row.item, row.signature, row.share) == ("Exp->Abs(float32)", "a", 1.0)
    assert made.avoided == [row]
    assert made.learn(observed(50, chain("Exp", "Abs"), "a")) == []


def test_one_wrong_kernel_shows_under_many_signatures():
    readers = ("Abs", "Relu") * 6
    some = [t for op in readers for t in observed(1, chain("Exp", op), f"wrong at {op}")]
    (row,) = throttle().learn(some + observed(60, chain("Abs", "Relu")))
    assert (row.item, row.share) == (EXP, 1.0)


def test_an_operator_is_avoided_with_all_dtypes_that_fail():
    some = [t for d in ("float32", "int8") for t in observed(8, chain("Exp", dtype=d), "a")]
    some += observed(9, chain("Exp", dtype="float64")) + observed(60, chain("Abs", "Relu"))
    assert items(throttle().learn(some)) == [EXP, "Exp(int8)->int8"]


def test_an_operator_that_fails_whatever_its_dtype_is_avoided_with_all_of_them():
    more = [*KEYS, "Exp(float64)->float64", "Exp(int8)->int8", "Exp(uint8)->uint8"]
    some = [t for d in ("float32", "int8") for t in observed(8, chain("Exp", dtype=d), "a")]
    some += observed(3, chain("Exp", dtype="uint8")) + observed(60, chain("Abs", "Relu"))
    found = throttle(keys=more).learn(some)
    assert items(found) == [EXP, "Exp(float64)->float64", "Exp(int8)->int8"]
    assert [row.share for row in found] == [1.0, 0.842, 1.0]
    assert {row.why for row in found} == {"16 of 19 tests with Exp failed"}
    assert by_operator(found) == {"Exp (3 signatures)": found[0]}
    assert by_operator(found[:1]) == {EXP: found[0]}


def test_texts_that_many_tests_share_are_kept_once():
    made = throttle()
    made.learn(t for _ in range(3) for t in observed(1, chain("Exp", "Abs")))
    named = [item for test in made._tests for item in test.named]
    assert len({id(item) for item in named}) == len({*named}) == len(named) / 3


def test_an_operator_that_seldom_fails_is_not_given_up():
    some = (
        observed(6, chain("Exp"), "a") + observed(94, chain("Exp")) + observed(900, chain("Relu"))
    )
    assert throttle().learn(some) == []
    # An edge costs less than an operator: a tenth of its tests is enough.
    some = observed(12, chain("Exp", "Abs"), "a") + observed(88, chain("Exp", "Abs"))
    some += observed(900, chain("Relu")) + observed(300, chain("Exp")) + observed(300, chain("Abs"))
    assert items(throttle().learn(some)) == ["Exp->Abs(float32)"]


def test_chance_is_no_evidence():
    some = (
        observed(5, chain("Exp"), "a")
        + observed(5, chain("Abs"), "a")
        + observed(5, chain("Relu"), "a")
    )
    assert throttle().learn(some) == []
    assert association(5, 10, 50, 100) == association(0, 10, 50, 100) == 0
    assert association(5, 5, 5, 100) > SIGNIFICANT > association(3, 5, 50, 100)


def test_of_two_causes_each_is_avoided():
    some = observed(20, chain("Relu", "Conv"), "a") + observed(20, chain("Exp"), "b")
    some += observed(50, chain("Relu", "Abs")) + observed(50, chain("Abs", "Conv"))
    assert items(throttle().learn(some)) == [EXP, "Relu->Conv(float32)"]


def test_what_an_exporter_fails_on_is_avoided_with_it_alone():
    some = observed(20, chain("Exp"), "a", exporter="dynamo", kind=EXPORT)
    some += observed(20, chain("Exp")) + observed(20, chain("Abs"), exporter="dynamo")
    assert items(throttle().learn(some)) == [f"dynamo:{EXP}"]


def refused(count, graph, words):
    brief = Brief("unsupported", "import", message=words)
    return [replace(t, outcomes={"toy": {"O0": brief}}) for t in observed(count, graph)]


def test_what_a_compiler_refuses_in_most_tests_is_avoided():
    behind = {"Abs": "Exp 3 needs a constant", "Relu": "Exp 7 needs a constant"}
    some = [t for op, words in behind.items() for t in refused(3, chain("Exp", op), words)]
    some += observed(60, chain("Abs", "Relu"))
    taken = [t for op in behind for t in observed(2, chain("Exp", op))]
    (row,) = throttle().learn(some + taken)
    assert (row.item, row.signature, row.share) == (EXP, "toy: Exp needs a constant", 0.6)
    assert throttle().learn(some + taken * 2) == []


def test_what_is_refused_as_one_exporter_writes_it_is_avoided_with_it_alone():
    written = refused(3, chain("Exp"), "no such pads") + observed(40, chain("Abs", "Relu"))
    some = [replace(t, exporter="dynamo") for t in written] + observed(20, chain("Exp"))
    assert items(throttle().learn(some)) == ["dynamo:" + EXP]


def test_a_mode_or_a_rule_is_avoided_where_it_is_what_is_refused():
    def padding(mode):
        made = chain("Abs", "Relu")
        return replace(made, nodes=(replace(made.nodes[0], attributes={"mode": mode}),))

    def having(tests, graph):
        return [replace(t, items=(*t.items, *properties(graph))) for t in tests]

    some = having(refused(3, padding("wrap"), "padding by wrap is unheard of"), padding("wrap"))
    some += having(observed(60, padding("edge")), padding("edge"))
    assert items(throttle().learn(some)) == ["Abs[mode=wrap]"]
    named = refused(3, chain("Exp"), "no function 'local.part_3'")
    named = [replace(t, variations=("form:function",)) for t in named]
    assert items(throttle().learn(named + observed(60, chain("Exp")))) == ["function[rule]"]


def test_nothing_is_avoided_without_a_threshold():
    some = observed(20, chain("Exp"), "a") + observed(60, chain("Abs"))
    assert throttle(0).learn(some) == []


def test_something_is_left_to_generate():
    some = observed(20, chain("Exp"), "a") + observed(60, chain("Abs"))
    assert throttle(keys=[EXP]).learn(some) == []
    refused = {SupportKey.parse(key) for key in KEYS if key != EXP}
    assert throttle().learn(some, refused) == []
    assert items(throttle().learn(some)) == [EXP]
