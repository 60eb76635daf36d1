"""Blame by flip: tables of states with known causes, and laws."""

import itertools
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.target import Target, differing, simpler
from nnfuzz.base.reading import read
from nnfuzz.base.writing import as_json
from nnfuzz.compare.flip import (
    PYTORCH,
    Blame,
    Coordinate,
    State,
    blame,
    right_release,
    state_of,
)

LEVELS = ("O0", "O1", "O2", "O3")
RELEASES, DEVICES, FORMS = ("1.0", "2.0"), ("cpu", "gpu"), ("direct", "torchscript", "dynamo")
RIGHT, WRONG, UNSUPPORTED = State.RIGHT, State.WRONG, State.UNSUPPORTED
BAD = (State.IMPORT, State.COMPILE, State.EXECUTE, WRONG)


def targets(compiler="a", releases=RELEASES[:1], devices=DEVICES[:1], forms=FORMS[:1]):
    return [Target(compiler, *rest) for rest in itertools.product(releases, devices, LEVELS, forms)]


def table(wrong, state=WRONG, others=(), **which):
    """States of a planted compiler, wrong where the predicate holds, beside those of others."""
    states = {t: state if wrong(t) else RIGHT for t in targets(**which)}
    return {PYTORCH: RIGHT, **states, **dict(others)}


def accused(states, **how):
    return blame(states, "a", levels=LEVELS, **how).coordinate


def peer(form, state=RIGHT, name="b"):
    return Target(name, "9", pipeline="O0", form=form), state


OPTIMISER = [
    (lambda t, least=least: t.level >= least, state, which)
    for least, (state, which) in itertools.product(
        LEVELS[1:],
        [
            (WRONG, {}),
            (State.COMPILE, {}),
            (WRONG, {"devices": DEVICES, "releases": RELEASES}),
            (State.EXECUTE, {"forms": FORMS}),
        ],
    )
]
KERNEL = [
    (lambda t: True, state, which)
    for state, which in itertools.product(
        (WRONG, State.COMPILE, State.EXECUTE),
        [{}, {"devices": DEVICES}, {"releases": RELEASES}, {"devices": DEVICES, "forms": FORMS}],
    )
]


@pytest.mark.parametrize(("wrong", "state", "which"), OPTIMISER)
def test_an_optimiser_is_accused_by_a_level_that_does_well(wrong, state, which):
    found = blame(table(wrong, state, **which), "a", levels=LEVELS)
    assert found.coordinate is Coordinate.PIPELINE
    assert simpler(found.right, found.wrong, LEVELS)


@pytest.mark.parametrize(("wrong", "state", "which"), KERNEL)
def test_where_nothing_is_right_the_compiler_is_accused(wrong, state, which):
    assert accused(table(wrong, state, [peer("direct")], **which)) is Coordinate.COMPILER


@pytest.mark.parametrize("state", BAD)
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("forms", [FORMS[:1], FORMS])
def test_code_for_one_device_is_accused(state, device, forms):
    def wrong(t):
        return t.device == device

    states = table(wrong, state, devices=DEVICES, releases=RELEASES, forms=forms)
    found = blame(states, "a", levels=LEVELS)
    assert (found.coordinate, found.wrong.device) == (Coordinate.DEVICE, device)
    assert found.accused == f"code for {device}"


@pytest.mark.parametrize("state", BAD)
@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("devices", [DEVICES[:1], DEVICES])
def test_a_regression_is_a_flip_of_the_release(state, release, devices):
    states = table(lambda t: t.release == release, state, devices=devices, releases=RELEASES)
    assert accused(states) is Coordinate.RELEASE


def test_a_change_needs_a_release_that_is_right_wherever_the_other_one_fails():
    states = table(lambda t: t.release == "2.0" and t.level >= "O2", releases=RELEASES)
    bad = [target for target in states if states[target] is WRONG]
    assert right_release(bad, states) == "1.0"
    assert right_release(bad[:1], states) == "1.0"
    for state in (WRONG, UNSUPPORTED, State.COMPILE):
        assert right_release(bad, {**states, replace(bad[1], release="1.0"): state}) == ""
    assert right_release(bad, {t: s for t, s in states.items() if t.release != "1.0"}) == ""


@pytest.mark.parametrize("state", BAD)
@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("others", [(), "b", "bc"])
def test_an_exporter_is_accused_where_nobody_understands_it(state, form, others):
    peers = [peer(form, WRONG, name) for name in others]
    states = table(lambda t: t.form == form, state, peers, forms=("direct", form))
    assert accused(states) is Coordinate.FORM


@pytest.mark.parametrize("state", BAD)
@pytest.mark.parametrize("form", FORMS[1:])
@pytest.mark.parametrize("name", ["b", "onnx.reference", "onnx.checker"])
def test_an_importer_is_accused_where_somebody_else_understands_the_form(state, form, name):
    peers = [peer(form, RIGHT, name)]
    states = table(lambda t: t.form == form, state, peers, forms=("direct", form))
    found = blame(states, "a", levels=LEVELS)
    assert (found.coordinate, found.right.compiler) == (Coordinate.COMPILER, name)


def test_the_direct_form_is_trusted():
    states = table(lambda t: t.form == "direct", forms=("direct", "dynamo"))
    assert accused(states) is Coordinate.COMPILER


def test_optimisation_that_removes_the_fault_is_innocent():
    assert accused(table(lambda t: t.level == "O0")) is Coordinate.COMPILER
    assert accused(table(lambda t: t.level in ("O1", "O2"))) is Coordinate.PIPELINE


def test_the_reference_is_accused_by_two_others_only():
    everywhere = table(lambda t: True, others=[peer("direct", WRONG)])
    assert accused(everywhere) is Coordinate.COMPILER
    assert accused({**everywhere, PYTORCH: WRONG}) is Coordinate.REFERENCE
    agreeing = dict([peer("direct", RIGHT, "c")])
    assert accused({**everywhere, PYTORCH: WRONG, **agreeing}) is Coordinate.COMPILER


def test_pipeline_goes_before_device_and_form():
    def wrong(t):
        return t.level == "O3" and t.device == "gpu" and t.form == "dynamo"

    states = table(wrong, devices=DEVICES, forms=("direct", "dynamo"))
    assert accused(states) is Coordinate.PIPELINE


def test_a_level_that_does_not_take_the_model_is_no_witness():
    low, high = (Target("a", pipeline=level) for level in ("O0", "O3"))
    assert accused({low: UNSUPPORTED, high: WRONG}) is Coordinate.COMPILER
    assert accused({low: State.BUILT, high: State.COMPILE}) is Coordinate.PIPELINE


def test_what_is_right_goes_before_what_fails_less():
    """O0 was built, which O3 cannot be, but the direct form is right at O3."""
    states = {
        Target("a", pipeline="O0", form="dynamo"): State.BUILT,
        Target("a", pipeline="O3", form="dynamo"): State.COMPILE,
    }
    assert accused(states) is Coordinate.PIPELINE
    assert accused({**states, Target("a", pipeline="O3", form="direct"): RIGHT}) is Coordinate.FORM


def test_each_failure_is_blamed_by_itself():
    """Wrong at O0; what O3 adds, a crash in compilation, is the optimiser's."""
    low, high = (Target("a", pipeline=level) for level in ("O0", "O3"))
    states = {low: WRONG, high: State.COMPILE}
    assert accused(states, failing=[low]) is Coordinate.COMPILER
    assert accused(states, failing=[high]) is Coordinate.PIPELINE
    worse = {low: State.COMPILE, high: WRONG}
    assert accused(worse, failing=[high]) is Coordinate.COMPILER


def test_nobody_is_accused_where_nothing_fails():
    assert accused(table(lambda t: False)) is Coordinate.NONE
    assert accused({Target("b"): WRONG}) is Coordinate.NONE


STATES = st.dictionaries(
    st.sampled_from(targets(releases=RELEASES, devices=DEVICES, forms=FORMS)),
    st.sampled_from(State),
    max_size=12,
)


@given(STATES)
def test_the_flip_is_a_pair_of_the_states_that_differ_in_what_is_accused(states):
    found = blame(states, "a", levels=LEVELS)
    failing = [t for t, state in states.items() if state.failed]
    assert (found.coordinate is Coordinate.NONE) == (not failing)
    assert found.evidence
    if found.coordinate in ("pipeline", "device", "release", "form"):
        assert differing(found.right, found.wrong) == (found.coordinate,)
        assert states[found.right] > states[found.wrong]
    if found.wrong:
        assert not any(simpler(t, found.wrong, LEVELS) for t in failing)
    assert read(Blame, as_json(found)) == found


@given(STATES, st.randoms(use_true_random=False))
def test_the_order_of_the_states_does_not_matter_for_what_is_accused(states, rng: random.Random):
    shuffled = list(states.items())
    rng.shuffle(shuffled)
    assert accused(dict(shuffled)) == accused(states)


@pytest.mark.parametrize(
    ("kind", "stage", "state"),
    [
        (OutcomeKind.OK, Stage.EXECUTE, RIGHT),
        (OutcomeKind.MISMATCH, Stage.COMPARE, WRONG),
        (OutcomeKind.UNSUPPORTED, Stage.IMPORT, UNSUPPORTED),
        (OutcomeKind.CRASH, Stage.COMPILE, State.COMPILE),
        (OutcomeKind.TIMEOUT, Stage.EXECUTE, State.EXECUTE),
        (OutcomeKind.EXCEPTION, Stage.EXPORT, State.EXPORT),
    ],
)
def test_the_state_of_an_outcome(kind, stage, state):
    assert state_of(Outcome(kind, stage, "a", "O0")) is state


@pytest.mark.parametrize("state", BAD)
def test_a_rewrite_is_trusted_as_the_direct_form_is(state):
    """Right on the graph as it is, wrong on another model with the same meaning."""
    forms = ("direct", "direct+times_one#5")
    states = table(lambda t: t.form != "direct", state, forms=forms)
    found = blame(states, "a", levels=LEVELS)
    assert found.coordinate is Coordinate.COMPILER and not found.importer
    assert (found.right.form, found.wrong.form) == forms
    assert simpler(found.right, found.wrong, LEVELS)
    mixed = table(lambda t: t.form != "direct" and t.level != "O0", state, forms=forms)
    assert accused(mixed) is Coordinate.PIPELINE
