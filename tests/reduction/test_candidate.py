"""Whether a candidate still fails in the same way."""

from __future__ import annotations

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.compare.flip import NOBODY
from nnfuzz.experiment.judgement import accused_by
from nnfuzz.reduction.candidate import failure_key
from nnfuzz.triage.signature import failures
from tests.triage.test_signature import crashed, failed, outcome


def test_the_failure_stays_the_same_and_occurs_in_fresh_processes(findings, reductions):
    for finding, done in zip(findings, reductions):
        before = failure_key(finding.failure, finding.blame, finding.outcomes)
        after = failure_key(done.failure, done.best.blame(done.failure), done.best.outcomes)
        assert after == before
        assert done.confirmed == 3


def test_a_level_that_fails_in_another_way_does_not_tell_the_optimiser_apart():
    ran = [failed("O0", "bad asin"), failed("O1", "bad acos")]
    _, acos = failures(ran)
    alone = [failed("O0", "bad acos"), failed("O1", "bad acos")]
    assert failure_key(acos, None, ran) == failure_key(failures(alone)[0], None, alone)
    fine = [outcome("O0"), failed("O1", "bad acos")]
    assert failure_key(failures(fine)[0], None, fine) != failure_key(acos, None, ran)


def test_a_function_that_is_named_after_the_nth_node_keeps_the_failure():
    def key(n, place="normalise"):
        trace = f"bad axis\n   1: toy::{place}\n   2: <toy::Pass{n} as toy::Run>::call\n"
        ran = [failed("O0", trace)]
        return failure_key(failures(ran)[0], None, ran)

    assert key(29) == key(8) != key(8, "resolve")


def test_a_level_that_does_not_take_the_whole_case_need_not_refuse_a_candidate():
    ran = [failed("O0", "bad acos"), outcome("O1", OutcomeKind.UNSUPPORTED)]
    fine = [failed("O0", "bad acos"), outcome("O1")]
    whole, part = (failures(outcomes)[0] for outcomes in (ran, fine))
    wanted = failure_key(whole, NOBODY, ran, ["O1"])
    assert failure_key(part, NOBODY, fine, ["O1"]) == wanted
    assert failure_key(whole, NOBODY, ran) != failure_key(part, NOBODY, fine)


def test_where_the_least_optimised_level_says_nothing_a_candidate_may_tell():
    silent = outcome("O0", OutcomeKind.UNSUPPORTED)
    ran = [silent, crashed("O1")]
    (whole,) = failures(ran)
    wanted = failure_key(whole, NOBODY, ran, ["O0"])
    for first in (outcome("O0"), crashed("O0")):
        outcomes = [first, crashed("O1")]
        (failure,) = failures(outcomes)
        blame = accused_by(outcomes, None, failure)
        assert failure_key(failure, blame, outcomes, ["O0"]) == wanted


def test_misused_memory_may_show_in_any_way():
    ways = [
        [crashed("O0"), outcome("O1")],
        [outcome("O0"), crashed("O1", "double free or corruption (out)", "SIGABRT")],
    ]
    keys = [failure_key(failures(ran)[0], NOBODY, ran) for ran in ways]
    assert (
        keys[0]
        == keys[1]
        != failure_key(failures(ran := [crashed("O0", "", "SIGFPE")])[0], NOBODY, ran)
    )
