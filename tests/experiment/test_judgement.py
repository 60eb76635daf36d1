"""What the parent decides by itself, and what it asks the judge."""

from dataclasses import replace

import numpy as np

from nnfuzz.backend.deviation import Deviation
from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target
from nnfuzz.compare.flip import Coordinate
from nnfuzz.compare.mismatch import Mismatch, MismatchKind, Verdict
from nnfuzz.experiment.judgement import (
    BLIND,
    accused_by,
    comparable_share,
    doubtful,
    excused,
    informed,
)
from nnfuzz.ir.view import NO_GRAPH
from nnfuzz.testcase.case import TestCase
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.jobs import Judge
from nnfuzz.triage.signature import failures

EXPECTED = {"a": np.float32([1, 2]), "b": np.int64([3])}
CASE = TestCase(Numbered(0, 0), NO_GRAPH, b"", {}, {}, EXPECTED)


def outcome(level: str, **outputs: np.ndarray) -> Outcome:
    return Outcome(OutcomeKind.OK, Stage.EXECUTE, Target("toy", pipeline=level), outputs=outputs)


def test_only_outputs_that_differ_anywhere_are_doubtful():
    good = outcome("O0", **EXPECTED)
    near = outcome("O1", a=EXPECTED["a"] * np.float32(1 + 1e-7), b=EXPECTED["b"])
    wrong = outcome("O2", a=EXPECTED["a"], b=np.int64([4]))
    short = outcome("O3", b=EXPECTED["b"])
    assert doubtful(CASE, [good, near]) == []
    assert doubtful(CASE, [good, wrong]) == ["b"]
    assert doubtful(CASE, [wrong, short]) == ["a", "b"]


def test_the_judge_gets_the_doubtful_outputs_of_every_target():
    ran = [outcome("O0", **EXPECTED), outcome("O2", a=EXPECTED["a"], b=np.int64([4]))]
    job = Judge.of(CASE, ran, ["b"])
    assert job.names == ("b",)
    assert [[*result.outputs] for result in job.results] == [["b"], ["b"]]
    assert sum(len(result.outputs) for result in Judge.of(CASE, ran).results) == 4


def test_the_comparable_share_is_told_for_whole_verdicts_only():
    assert comparable_share(Verdict({}, {"a": 1.0, "b": 0.5}), EXPECTED) == 0.75
    assert comparable_share(Verdict({}, {"b": 0.5}), EXPECTED) is None
    assert comparable_share(None, EXPECTED) is None


def test_what_a_habit_alone_gets_wrong_is_a_witness_for_the_rest():
    """Both levels compute "a" in a narrower type; "b" is wrong at O3."""
    low, high = (outcome(level, **EXPECTED) for level in ("O0", "O3"))
    a, b = (Mismatch(name, MismatchKind.VALUE) for name in EXPECTED)
    verdict = Verdict({low.target: (a,), high.target: (a, b)})
    told = replace(
        verdict,
        explained={low.target: (Deviation("float64", "float32"),)},
        habitual={high.target: ("a",)},
    )
    found = failures([low, high], told)
    accused = [accused_by([low, high], told, failure).coordinate for failure in found]
    assert accused == [Coordinate.COMPILER, Coordinate.PIPELINE]


def test_what_is_wrong_at_the_baseline_already_accuses_nobody():
    plain, other = replace(outcome("none"), baseline=True), outcome("all")
    stranger = replace(outcome("O0"), target=Target("stranger", pipeline="O0"))
    assert [o.kind for o in excused([plain, other])] == [OutcomeKind.OK] * 2
    wrong = [replace(o, kind=OutcomeKind.MISMATCH) for o in (plain, other, stranger)]
    kinds = [o.kind for o in excused(wrong)]
    assert kinds == [OutcomeKind.UNSUPPORTED, OutcomeKind.UNSUPPORTED, OutcomeKind.MISMATCH]
    kinds = [o.kind for o in excused([plain, *wrong[1:]])]
    assert kinds == [OutcomeKind.OK, OutcomeKind.MISMATCH, OutcomeKind.MISMATCH]


def test_a_baseline_keeps_the_words_by_which_it_says_what_it_lacks():
    lacks = replace(outcome("none"), baseline=True, kind=OutcomeKind.UNSUPPORTED, message="no Relu")
    other = replace(outcome("all"), kind=OutcomeKind.EXCEPTION, message="no Relu")
    assert [o.message for o in excused([lacks, other])] == ["no Relu", "the baseline is not right"]


def test_an_answer_says_nothing_where_the_model_without_its_fault_gets_no_further():
    def at(level: str, kind: OutcomeKind, stage: Stage) -> Outcome:
        return Outcome(kind, stage, Target("toy", pipeline=level), message="told")

    died, refused = OutcomeKind.CRASH, OutcomeKind.REFUSED
    valid = [at("O0", died, Stage.COMPILE), at("O3", OutcomeKind.OK, Stage.EXECUTE)]
    found = [
        *informed([at("O0", died, Stage.COMPILE), at("O3", died, Stage.COMPILE)], valid),
        *informed([at("O0", refused, Stage.IMPORT), at("O3", refused, Stage.IMPORT)], valid),
        *informed([at("O0", OutcomeKind.ACCEPTED, Stage.EXECUTE)], valid),
    ]
    assert [o.kind for o in found] == [
        *(OutcomeKind.UNSUPPORTED, died),
        *(refused, refused),
        OutcomeKind.ACCEPTED,
    ]
    assert [o.message for o in found] == [BLIND, *["told"] * 4]
