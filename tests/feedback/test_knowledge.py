"""What observations of tests turn into: the configuration of an epoch."""

import pytest

from nnfuzz.backend.registry import BackendSpec
from nnfuzz.feedback.knowledge import Learner
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import TestRow
from nnfuzz.testcase.case import CaseConfig

ADD, EXP = (SupportKey("direct", op, "(int8)->int8") for op in ("Add", "Exp"))


@pytest.fixture
def notes():
    return []


@pytest.fixture
def learner(notes):
    return learner_of({}, notes)


def learner_of(reasons, notes):
    config = CampaignConfig((BackendSpec("toy"),), CaseConfig(exporter="direct"))
    return Learner(config, [ADD, EXP], reasons, notes.append)


def observed(index, failures=(), items=(ADD,)):
    names = tuple(str(key.signature) for key in items)
    kinds = dict.fromkeys(failures, "toy mismatch compare")
    return TestRow(index, "run", 0, exporter="direct", items=names, failures=kinds)


def test_an_epoch_without_news_is_as_the_one_before(learner):
    first = learner.knowledge(0)
    assert (first.refused, first.avoided) == ((), ())
    learner.learn([])
    assert learner.knowledge(1) is None


@pytest.mark.parametrize("key", [EXP, EXP.any_dtypes])
def test_what_a_compiler_refuses_is_refused_from_the_first_epoch_on(notes, key):
    learner = learner_of({key: "toy: no kernel"}, notes)
    first = learner.knowledge(0)
    assert first.refused == (str(key),) and first.reasons == {str(key): "toy: no kernel"}
    assert notes[0].startswith("1 of 2 operator signatures are not generated")
    failing = [observed(i, ["wrong"], [ADD]) for i in range(9)]
    learner.learn([*failing, *(observed(i, items=[EXP]) for i in range(9, 40))])
    assert learner.knowledge(1) is None  # without Add nothing would be left


def test_what_keeps_failing_is_avoided(learner, notes):
    failing = [observed(i, ["wrong"], [EXP]) for i in range(9)]
    tests = (*failing, *(observed(i) for i in range(9, 40)))
    learner.learn(tests)
    (row,) = learner.knowledge(1).avoided
    assert row.item == str(EXP.signature) and len(notes) == 1
    assert learner.knowledge(2) is None
