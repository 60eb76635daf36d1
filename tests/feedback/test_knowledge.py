"""What observations of tests turn into: the configuration of an epoch."""

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import Brief
from nnfuzz.backend.registry import BackendSpec
from nnfuzz.feedback.knowledge import Learner
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import INSTANCES, UNSUPPORTED, ProbeAnswer
from nnfuzz.feedback.throttle import Throttle
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import TestRow
from nnfuzz.testcase.case import CaseConfig

ADD, EXP = (SupportKey("direct", op, "(int8)->int8") for op in ("Add", "Exp"))


@pytest.fixture
def notes():
    return []


@pytest.fixture
def prober():
    return Prober({"toy": ("O0",)}, [ADD, EXP])


@pytest.fixture
def learner(prober, notes):
    config = CampaignConfig((BackendSpec("toy"),), CaseConfig(exporter="direct"))
    throttle = Throttle(5, prober.left(()))
    return Learner(config, prober, throttle, notes.append)


def observed(index, failures=(), items=(ADD,)):
    names = tuple(str(key.signature) for key in items)
    kinds = dict.fromkeys(failures, "toy mismatch compare")
    return TestRow(index, "run", 0, exporter="direct", items=names, failures=kinds)


def test_an_epoch_without_news_is_as_the_one_before(learner):
    first = learner.knowledge(0)
    assert (first.refused, first.avoided) == ((), ())
    learner.learn([])
    assert learner.knowledge(1) is None


def test_what_a_backend_lacks_is_refused_once_with_the_reason(learner, prober, notes):
    for instance in range(INSTANCES):
        answer = ProbeAnswer(UNSUPPORTED, "no kernel")
        prober.answers.add("toy", EXP, instance, {"O0": answer})
    prober.ask([EXP])
    config = learner.knowledge(0)
    assert config.refused == (str(EXP),) and config.reasons == {str(EXP): "toy: no kernel"}
    assert len(notes) == 1 and learner.knowledge(1) is None


def test_not_everything_is_refused(learner, prober):
    for key in (ADD, EXP):
        for instance in range(INSTANCES):
            prober.answers.add("toy", key, instance, {"O0": ProbeAnswer(UNSUPPORTED, "no")})
    prober.ask([ADD, EXP])
    assert learner.knowledge(0).refused == ()


def test_what_keeps_failing_is_avoided(learner, notes):
    failing = [observed(i, ["wrong"], [EXP]) for i in range(9)]
    tests = (*failing, *(observed(i) for i in range(9, 40)))
    learner.learn(tests)
    (row,) = learner.knowledge(0).avoided
    assert row.item == str(EXP.signature) and len(notes) == 1
    assert learner.knowledge(1) is None


def test_a_refusal_in_a_test_has_the_signature_probed(prober):
    refused = replace(
        observed(0), outcomes={"toy": {"O0": Brief("unsupported", message="nothing")}}
    )
    assert prober.learn([refused], 0) == 1 and prober.next().key == ADD


def test_what_a_table_claims_is_generated_again_once_it_ran(notes):
    claims = {"toy": {EXP.any_dtypes: "no Exp"}}
    prober = Prober({"toy": ("O0",)}, [ADD, EXP], claims=claims)
    config = CampaignConfig((BackendSpec("toy"),), CaseConfig(exporter="direct"))
    learner = Learner(config, prober, Throttle(5, []), notes.append)
    assert learner.knowledge(0).refused == ("direct:Exp",)
    prober.tables["toy"].add_run([EXP])
    assert learner.knowledge(1).refused == () and "direct:Exp" in notes[-1]
