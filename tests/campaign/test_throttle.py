"""What is worth avoiding, and what is lifted again."""

from __future__ import annotations

import pytest

from nnfuzz.campaign.rows import AvoidedRow, FindingRow, Occurrence, Record, ReductionRow, TestRow
from nnfuzz.campaign.store import Store
from nnfuzz.campaign.throttle import Throttle
from nnfuzz.ir.features import features

VARIABLES = {op: [0] for op in ("Relu", "Conv", "Exp", "Abs")}
KEYS = [f"{op}(float32)->float32" for op in VARIABLES]


def chain(*operators, dtype="float32"):
    names = [f"v{i}" for i in range(len(operators) + 1)]
    return {
        "values": [[name, dtype, [2]] for name in names],
        "nodes": [
            {"op": op, "attributes": {}, "inputs": [names[i]], "outputs": [names[i + 1]]}
            for i, op in enumerate(operators)
        ],
    }


class Campaign:
    """Tests with graphs, some of which failed with a signature."""

    def __init__(self, folder):
        self.store = Store.create(folder, {})
        self.store.begin_session()
        self.count = 0

    def tests(self, number, graph, *failed):
        for _ in range(number):
            row = TestRow(self.count, "run", 1, features=features(graph))
            seen = tuple(Occurrence(s, self.count) for s in failed)
            self.store.record(Record(row, (), seen))
            self.count += 1


@pytest.fixture
def campaign(tmp_path):
    made = Campaign(tmp_path / "c")
    yield made
    made.store.close()


def found(occurrences, signature="a", refined="r", **more):
    return FindingRow(
        signature,
        0,
        "mismatch",
        "compare",
        "toy",
        "O1",
        "wrong",
        "findings/a",
        occurrences=occurrences,
        refined=refined,
        **more,
    )


def reduced(*operators):
    return {"a": ReductionRow("a", "r", "wrong", "", chain(*operators), 10, len(operators))}


def throttle(campaign, threshold=5, avoided=(), keys=KEYS):
    return Throttle(campaign.store, threshold, keys, VARIABLES, avoided)


def items(rows):
    return [row.item for row in rows]


def test_an_operator_that_often_fails_is_avoided_once(campaign):
    campaign.tests(5, chain("Exp", "Abs"), "a")
    campaign.tests(5, chain("Abs", "Exp"))
    campaign.tests(50, chain("Abs", "Relu"))
    taming = throttle(campaign)
    assert taming.learn([found(4)], reduced("Exp")) == []
    (row,) = taming.learn([found(5)], reduced("Exp"))
    assert (row.item, row.signature, row.share) == ("Exp(float32)->float32", "a", 0.5)
    assert taming.avoided == [row]
    assert taming.learn([found(500)], reduced("Exp")) == []


def test_other_dtypes_of_the_same_operators_are_looked_at(campaign):
    campaign.tests(5, chain("Relu", "Conv"), "a")
    campaign.tests(4, chain("Relu", "Conv", dtype="int8"), "a")
    campaign.tests(2, chain("Relu", "Conv", dtype="int64"), "a")  # too few to tell
    campaign.tests(9, chain("Relu", "Conv", dtype="float64"))
    new = throttle(campaign).learn([found(11)], reduced("Relu", "Conv"))
    assert items(new) == ["Relu->Conv(float32)", "Relu->Conv(int8)"]


def test_an_operator_that_seldom_fails_is_not_given_up(campaign):
    campaign.tests(5, chain("Exp", "Abs"), "a")
    campaign.tests(95, chain("Exp", "Abs"))
    taming = throttle(campaign)
    assert taming.learn([found(5)], reduced("Exp")) == []
    campaign.tests(100, chain("Exp", "Abs"), "a")
    assert taming.learn([found(9)], reduced("Exp")) == []  # asked again at twice as many
    assert items(taming.learn([found(105)], reduced("Exp"))) == ["Exp(float32)->float32"]


def test_of_several_edges_the_one_that_fails_most_is_avoided(campaign):
    campaign.tests(5, chain("Relu", "Conv", "Abs"), "a")
    campaign.tests(20, chain("Relu", "Conv"))
    campaign.tests(3, chain("Conv", "Abs"))
    campaign.tests(9, chain("Conv", "Abs", dtype="float64"))
    (row,) = throttle(campaign).learn([found(5)], reduced("Relu", "Conv", "Abs"))
    assert (row.item, row.share) == ("Conv->Abs(float32)", 0.625)


def test_duplicates_count_with_their_finding(campaign):
    campaign.tests(3, chain("Exp"), "a")
    campaign.tests(3, chain("Exp"), "b")
    taming = throttle(campaign)
    assert items(taming.learn([found(6, duplicates=("b",))], reduced("Exp"))) == [KEYS[2]]
    taming.watch(chain("Exp"), ["b"])
    assert taming._watches[KEYS[2]].failed == 1


@pytest.mark.parametrize("threshold, row", [(0, found(99)), (5, found(99, refined=""))])
def test_nothing_is_avoided(campaign, threshold, row):
    campaign.tests(9, chain("Exp"), "a")
    assert throttle(campaign, threshold).learn([row], reduced("Exp")) == []


def test_something_is_left_to_generate(campaign):
    campaign.tests(9, chain("Exp"), "a")
    assert throttle(campaign, keys=KEYS[2:3]).learn([found(9)], reduced("Exp")) == []
    assert throttle(campaign).learn([found(9)], reduced("Exp"), {*KEYS} - {KEYS[2]}) == []


def test_what_no_longer_fails_is_lifted_and_not_avoided_again(campaign):
    campaign.tests(9, chain("Exp"), "a")
    row = AvoidedRow(KEYS[2], "a", "why", 0.5)
    taming = throttle(campaign, avoided=[row])
    for _ in range(7):
        taming.watch(chain("Exp", "Abs"), [])
        taming.watch(chain("Abs"), ["a"])
        assert taming.lift() == []
    taming.watch(chain("Exp"), [])
    assert taming.lift() == [row] and taming.avoided == []
    assert taming.learn([found(99)], reduced("Exp")) == []


@pytest.mark.parametrize("failed, lifted", [("a", False), ("unheard of", False), ("b", True)])
def test_only_failures_that_are_surely_others_let_it_be_lifted(campaign, failed, lifted):
    taming = throttle(campaign, avoided=[AvoidedRow("Relu->Conv(float32)", "a", "why", 1.0)])
    taming.learn([found(1), found(1, "b", "other")], {})
    for _ in range(4):
        taming.watch(chain("Relu", "Conv"), [failed])
    assert bool(taming.lift()) == lifted
