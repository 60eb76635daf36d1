"""What probes and tests teach about the support of signatures."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.campaign.probe import Probe, Prober, by_turns
from nnfuzz.campaign.support import INSTANCES, Support, signature_keys
from nnfuzz.campaign.support_cache import SupportCache, specs_digest
from nnfuzz.execute.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.execute.registry import BackendSpec
from nnfuzz.testcase.case import NotProduced, TestCase, refusal

SIGNATURES = ["Add(int8)->int8", "Add(bool)->bool", "Where(bool,int8)->int8"]
KEYS = [refusal("direct", signature) for signature in SIGNATURES]
VARIABLES = {"Add": [0], "Where": [0, 1]}
GRAPH = {
    "values": [["x", "int8", [2]], ["c", "bool", [2]], ["y", "int8", [2]], ["z", "int8", [2]]],
    "nodes": [
        {"op": "Add", "inputs": ["x", "x"], "outputs": ["y"]},
        {"op": "Where", "inputs": ["c", "y", "x"], "outputs": ["z"]},
    ],
}
CASE = TestCase(0, 0, GRAPH, b"", {}, {}, {"z": np.zeros(2, np.int8)}, generated_for="direct")


def outcome(kind: OutcomeKind, level: str = "O0") -> Outcome:
    return Outcome(kind, Stage.IMPORT, "toy", level, message="no such kernel")


OK, NO, BAD = (
    [outcome(k)] for k in (OutcomeKind.OK, OutcomeKind.UNSUPPORTED, OutcomeKind.EXCEPTION)
)


@pytest.fixture
def prober():
    return Prober({"toy": Support("toy")}, KEYS, VARIABLES)


def answer(prober, *answers) -> None:
    for ran in answers:
        prober.finished(prober.next(), {"toy": ran})


def test_signatures_are_read_off_the_graph():
    assert signature_keys(GRAPH, VARIABLES) == {SIGNATURES[0], SIGNATURES[2]}


def test_operators_take_turns():
    assert by_turns(KEYS) == [KEYS[0], KEYS[2], KEYS[1]]


def test_a_signature_that_runs_needs_one_probe(prober):
    prober.ask_all()
    answer(prober, OK)
    assert prober.tables["toy"].unknown(KEYS) == KEYS[1:]
    assert len(prober) == 2 and prober.refused() == {}


def test_a_refusal_takes_all_instances(prober):
    prober.ask([KEYS[0]])
    answer(prober, *[NO] * (INSTANCES - 1))
    assert prober.refused() == {}
    answer(prober, NO)
    assert prober.refused() == {KEYS[0]: "toy: unsupported in import at O0: no such kernel"}
    assert prober.next() is None


def test_one_good_instance_saves_the_signature(prober):
    prober.ask([KEYS[0]])
    answer(prober, NO, BAD, OK)
    assert prober.refused() == {} and not prober.tables["toy"].unknown(KEYS[:1])


def test_what_always_fails_is_refused_as_failing(prober):
    prober.ask([KEYS[0]])
    answer(prober, NO, BAD, NO)
    assert prober.refused()[KEYS[0]].startswith("toy: always fails: ")


def test_an_exporter_that_always_fails_counts_too(prober):
    prober.ask(KEYS[:2])
    for _ in range(INSTANCES):
        prober.not_produced(prober.next(), NotProduced(-1, "export", "cannot export"))
    assert prober.refused() == {KEYS[0]: "toy: always fails: export: cannot export"}
    prober.not_produced(prober.next(), NotProduced(-1, "inputs", "no input"))
    assert prober.next() is None and KEYS[1] not in prober.refused()


def test_tests_vouch_for_their_signatures_and_others_are_probed(prober):
    prober.learn(CASE, {"toy": [*OK, outcome(OutcomeKind.MISMATCH, "O1")]})
    assert prober.tables["toy"].unknown(KEYS) == [KEYS[1]]
    prober.learn(CASE, {"toy": NO})
    assert prober.next() is None
    other = {**GRAPH, "nodes": [{"op": "Add", "inputs": ["c", "c"], "outputs": ["c"]}]}
    for index in (1, 2):
        case = TestCase(0, index, other, b"", {}, {}, {}, generated_for="direct")
        prober.learn(case, {"toy": NO})
    assert prober.next() == Probe(KEYS[1], 0)
    assert prober.next() is None


def test_operators_that_the_message_names_are_probed_alone(prober):
    told = Outcome(OutcomeKind.UNSUPPORTED, Stage.IMPORT, "toy", "O0", message="no Where(16) yet")
    prober.learn(CASE, {"toy": [told]})
    assert [prober.next(), prober.next()] == [Probe(KEYS[2], 0), None]
    prober.tables["toy"].ran([KEYS[2]])
    prober.learn(CASE, {"toy": [told]})
    assert [prober.next(), prober.next()] == [Probe(KEYS[0], 0), None]


def test_probes_that_wait_can_be_put_off(prober):
    prober.ask_all()
    answer(prober, NO)
    prober.forget_waiting()
    assert prober.next() == Probe(KEYS[0], 1)
    assert prober.next() is None
    prober.ask_all()
    assert len(prober) == 2


def test_a_signature_is_probed_with_another_exporter_where_one_is_refused():
    torchscript = [refusal("torchscript", signature) for signature in SIGNATURES[:2]]
    prober = Prober({"toy": Support("toy")}, [*KEYS, *torchscript], VARIABLES)
    prober.ask_all()
    assert len(prober) == len(KEYS)
    answer(prober, *[NO] * INSTANCES)
    assert prober.left(prober.refused()) == set(SIGNATURES)
    probe = prober.next()
    assert probe == Probe(torchscript[0], 0) and probe.job()["exporter"] == "torchscript"
    prober.finished(probe, {"toy": NO})  # once is enough
    assert prober.left(prober.refused()) == set(SIGNATURES[1:])
    assert prober.next().key in KEYS[1:]


def test_what_an_exporter_does_not_write_is_probed():
    torchscript = [refusal("torchscript", signature) for signature in SIGNATURES]
    prober = Prober({"toy": Support("toy")}, [*KEYS, *torchscript], VARIABLES)
    failed = NotProduced(
        3, "export", "no", unsupported=True, graph=GRAPH, generated_for="torchscript"
    )
    prober.learn_export(replace(failed, unsupported=False))
    assert prober.next() is None
    prober.learn_export(failed)
    assert [prober.next().key, prober.next().key] == [torchscript[0], torchscript[2]]


def test_a_probe_runs_where_something_is_unknown():
    tables = {"one": Support("one"), "two": Support("two")}
    tables["one"].ran([KEYS[0]])
    assert Prober(tables, KEYS, VARIABLES).backends(Probe(KEYS[0], 0)) == ["two"]


def test_the_cache_keeps_all_but_what_must_be_reported_again(tmp_path):
    cache = SupportCache(tmp_path)
    path = cache.path(BackendSpec("toy"), {"toy": "1"}, {})
    assert path != cache.path(BackendSpec("toy"), {"toy": "2"}, {})
    table = Support("toy")
    table.ran(KEYS[:1])
    for ran in [NO] * INSTANCES:
        table.probed(KEYS[1], ran)
    for ran in [BAD] * INSTANCES:
        table.probed(KEYS[2], ran)
    cache.save(path, table, {"backend": "toy"})
    again = cache.load(path, "toy")
    assert again.unknown(KEYS) == [KEYS[2]]
    assert again.refused().keys() == {KEYS[1]}
    about, everything = cache.newest("toy")
    assert about == {"backend": "toy"}
    assert everything.refused().keys() == {KEYS[1], KEYS[2]}
    assert SupportCache(tmp_path, ignored=True).load(path, "toy").unknown(KEYS) == KEYS


def test_a_damaged_cache_is_an_empty_one(tmp_path):
    (tmp_path / "support-toy-1.json").write_text('{"entries": {"a": {"what": 1}}}')
    assert SupportCache(tmp_path).load(tmp_path / "support-toy-1.json", "toy").entries == {}
    assert SupportCache(tmp_path).newest("toy") is None


def test_the_digest_follows_plug_ins(tmp_path):
    plugin = tmp_path / "ops.py"
    plugin.write_text("a = 1")
    before = specs_digest([str(plugin)])
    plugin.write_text("a = 2")
    assert specs_digest([str(plugin)]) != before != specs_digest()
