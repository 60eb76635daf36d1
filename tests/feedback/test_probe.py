"""What probes and tests teach about the support of signatures."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import Brief, Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.feedback.probe import Prober, by_turns
from nnfuzz.feedback.support import (
    INSTANCES,
    OK,
    UNSUPPORTED,
    ProbeAnswer,
    ProbeAnswers,
)
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.rows import TestRow
from nnfuzz.records.schedule import place_of
from nnfuzz.testcase.case import NotProduced
from nnfuzz.testcase.identity import Probe


def key(text, exporter=""):
    return SupportKey.parse(text).with_exporter(exporter)


SIGNATURES = ["Add(int8)->int8", "Add(bool)->bool", "Where(bool,int8)->int8"]
KEYS = [key(signature, "direct") for signature in SIGNATURES]
LEVELS = {"toy": ("O0",)}


def outcome(kind: OutcomeKind, level: str = "O0") -> Outcome:
    return Outcome(kind, Stage.IMPORT, Target("toy", pipeline=level), message="no such kernel")


GOOD, NO, BAD, WRONG = (
    [outcome(k)]
    for k in (OutcomeKind.OK, OutcomeKind.UNSUPPORTED, OutcomeKind.EXCEPTION, OutcomeKind.MISMATCH)
)


def prober_of(keys=KEYS, levels=LEVELS, **more):
    return Prober(levels, keys, **more)


@pytest.fixture
def prober():
    return prober_of()


def answer(prober, *answers) -> None:
    for ran in answers:
        prober.finished(prober.next(), {"toy": ran})


def test(*told, backend="toy", signatures=(SIGNATURES[0], SIGNATURES[2]), exporter="direct"):
    """An observed test with (kind, message) for each level."""
    levels = {f"O{n}": Brief(kind, message=words) for n, (kind, words) in enumerate(told)}
    return TestRow(0, "run", 1, {backend: levels}, exporter=exporter, items=tuple(signatures))


test.__test__ = False


def test_operators_take_turns():
    assert by_turns(KEYS) == [KEYS[0], KEYS[2], KEYS[1]]


def test_a_signature_that_runs_needs_one_probe(prober):
    prober.ask(KEYS)
    answer(prober, GOOD)
    assert prober.tables["toy"].undecided(KEYS) == KEYS[1:]
    assert len(prober) == 2 and prober.refused() == {}


def test_a_refusal_takes_all_instances(prober):
    prober.ask([KEYS[0]])
    answer(prober, *[NO] * (INSTANCES - 1))
    assert prober.refused() == {}
    answer(prober, NO)
    assert prober.refused() == {KEYS[0]: "toy: unsupported in import at O0: no such kernel"}
    assert prober.next() is None and prober.idle


def test_one_good_instance_saves_the_signature(prober):
    prober.ask([KEYS[0]])
    answer(prober, NO, BAD, GOOD)
    assert prober.refused() == {} and not prober.tables["toy"].undecided(KEYS[:1])


@pytest.mark.parametrize("answers", [(NO, BAD, NO), (WRONG, WRONG, WRONG)])
def test_what_always_fails_is_failing_and_not_refused(prober, answers):
    prober.ask([KEYS[0]])
    answer(prober, *answers)
    assert prober.refused() == {} and prober.tables["toy"].failing().keys() == {KEYS[0]}
    assert prober.idle


def test_what_an_exporter_says_counts_too(prober):
    prober.ask(KEYS)
    for _ in range(INSTANCES):
        prober.not_produced(
            prober.next(), NotProduced(Probe(KEYS[0], 0), "export", "cannot export")
        )
    assert prober.tables["toy"].failing() == {KEYS[0]: "export: cannot export"}
    for _ in range(INSTANCES):
        prober.not_produced(
            prober.next(), NotProduced(Probe(KEYS[0], 0), "export", "no", unsupported=True)
        )
    assert prober.refused() == {KEYS[1]: "toy: export: no"}
    prober.not_produced(prober.next(), NotProduced(Probe(KEYS[0], 0), "inputs", "no input"))
    assert prober.next() is None and KEYS[2] not in prober.refused() and prober.idle


def test_a_probe_that_nnfuzz_loses_is_not_waited_for(prober):
    prober.ask([KEYS[0]])
    prober.finished(prober.next(), {})
    assert prober.idle and prober.tables["toy"].undecided([KEYS[0]]) == [KEYS[0]]


def test_tests_vouch_for_their_signatures_and_others_are_probed(prober):
    prober.learn([test(("ok", ""), ("mismatch", ""))], 16)
    assert prober.tables["toy"].undecided(KEYS) == [KEYS[1]]
    prober.learn([test(("unsupported", "no"))], 16)
    assert prober.next() is None
    prober.learn([test(("unsupported", "no"), signatures=[SIGNATURES[1]])] * 2, 32)
    probe = prober.next()
    assert (probe.key, probe.instance) == (KEYS[1], 0)
    assert place_of(31) < probe.place < place_of(32)
    assert prober.next() is None


def test_an_epoch_asks_for_few(prober):
    no = test(("unsupported", "no"), signatures=SIGNATURES)
    prober.learn([no], 16, most=2)
    assert len(prober) == 2
    answer(prober, GOOD, GOOD)
    prober.learn([no], 32, most=2)
    assert len(prober) == 1


def test_operators_that_the_message_names_are_probed_alone(prober):
    prober.learn([test(("unsupported", "no Where(16) yet"))], 0)
    assert [prober.next().key, prober.next()] == [KEYS[2], None]
    prober = prober_of()
    prober.tables["toy"].add_run([KEYS[2]])
    prober.learn([test(("unsupported", "no Where(16) yet"))], 0)
    assert [prober.next().key, prober.next()] == [KEYS[0], None]


@pytest.mark.parametrize("partial", [False, True])
def test_words_that_meant_whole_signatures_need_one_probe(partial):
    prober = prober_of([*KEYS, key("Mul(int8)->int8", "direct")])
    if partial:
        prober.learn([test(("ok", ""), signatures=SIGNATURES[1:2])], 16)
        prober.learn([test(("unsupported", "no Add"), signatures=SIGNATURES[1:2])], 16)
    prober.ask([KEYS[0], KEYS[2]])
    probes = []
    for _ in range(2):
        while probe := prober.next():
            words = replace(*NO, message=f"no {probe.key.operator}")
            prober.finished(probe, {"toy": [words]})
            probes.append(probe.key.operator)
        prober.learn([test(("unsupported", "no Mul"), signatures=["Mul(int8)->int8"])], 32)
    assert probes.count("Add") == probes.count("Where") == INSTANCES
    assert probes.count("Mul") == (INSTANCES if partial else 1) and len(prober.refused()) == 3


def test_what_an_exporter_does_not_write_is_probed():
    torchscript = [key(signature, "torchscript") for signature in SIGNATURES]
    prober = prober_of([*KEYS, *torchscript])
    told = {"backend": "torchscript", "exporter": "torchscript"}
    prober.learn([test(("exception", "no"), **told)], 0)
    assert prober.next() is None
    prober.learn([test(("unsupported", "no"), **told)], 0)
    assert [prober.next().key, prober.next().key] == [torchscript[0], torchscript[2]]


def test_a_probe_runs_where_something_is_unknown():
    prober = prober_of(levels={"one": ("O0",), "two": ("O0",)})
    prober.tables["one"].add_run([KEYS[0]])
    assert prober.backends(Probe(KEYS[0], 0)) == ["two"]


def known(*answers, key=KEYS[0]):
    found = ProbeAnswers()
    for instance, kind in enumerate(answers):
        found.add("toy", key, instance, {"O0": ProbeAnswer(kind, "as before")})
    return found


def test_what_is_known_is_not_run_again_and_counts_when_it_is_asked():
    kept = []
    prober = prober_of(answers=known(*[UNSUPPORTED] * INSTANCES), keep=lambda *a: kept.append(a))
    assert prober.refused() == {}
    prober.ask([KEYS[0]], before=16)
    assert prober.refused() == {KEYS[0]: "toy: as before"} and prober.idle
    assert [told[:4] for told in kept] == [("toy", KEYS[0], i, 16) for i in range(INSTANCES)]


def test_answers_that_are_missing_in_between_are_run():
    found = known(UNSUPPORTED, OK)
    prober = prober_of(answers=found)
    prober.ask([KEYS[0]])
    assert prober.idle and prober.refused() == {}
    again = prober_of(answers=found)
    again.ask(KEYS[:1])
    assert again.idle and again.tables["toy"].undecided(KEYS) == KEYS[1:]
    thorough = prober_of(levels={"toy": ("O0", "O1")}, answers=found)
    thorough.ask([KEYS[0]])
    assert thorough.next().instance == 0


CLAIMED = ["Exp(int8)->int8", "Exp(int16)->int16", "Sin(int8)->int8", "Neg(int8)->int8"]
CLAIMS = {"toy": {key("Exp"): "no Exp", key("Sin", "direct"): "no Sin"}}


def claiming():
    return prober_of([key(signature, "direct") for signature in CLAIMED], claims=CLAIMS)


def test_what_a_table_claims_is_refused_until_an_answer_says_otherwise():
    prober = claiming()
    assert prober.refused() == {key("Exp"): "toy: no Exp", key("Sin", "direct"): "toy: no Sin"}
    assert prober.left(prober.refused()) == {key("Neg(int8)->int8")}
    prober.ask([key("Exp(int16)->int16", "direct")])
    answer(prober, GOOD)
    assert [*prober.refused()] == [key("Sin", "direct")]
    prober.ask([key("Sin(int8)->int8", "direct")])
    answer(prober, *[BAD] * INSTANCES)
    assert not prober.refused()
