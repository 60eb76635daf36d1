"""Whatever a worker sends or writes, its test ends in an outcome, and the next one is all right."""

from __future__ import annotations

import pytest

from nnfuzz.backend.outcome import OutcomeKind, Stage

FRAMES = """
    deep_json deep_but_legal_json no_json header_is_a_list truncated_frame huge_index
    shape_lies shape_is_negative shape_has_no_numbers empty_shape_of_huge_numbers
    object_dtype struct_dtype time_dtype dtype_is_a_module_attribute
    blobs_share_their_bytes blob_without_a_name two_blobs_of_one_name
    message_is_a_number seconds_are_no_numbers seconds_are_not_finite unknown_field
    unknown_stage stage_that_no_worker_has kind_that_no_worker_knows another_target no_target
    bytes_as_output early_reply reply_to_another_job ready_again
    unknown_kind_of_message fault_without_fields message_of_terabytes noise
""".split()


@pytest.mark.parametrize("how", FRAMES)
def test_a_damaged_answer_is_a_crash_of_that_test(attacked, how):
    outcome = attacked(how)
    assert (outcome.kind, outcome.signal) == (OutcomeKind.CRASH, "")
    assert outcome.message.startswith("the worker's answer is damaged: ")


@pytest.mark.parametrize("how", ["one_part_too_many", "two_replies", "answer_and_linger"])
def test_what_comes_behind_an_answer_changes_nothing(attacked, how):
    assert attacked(how).kind is OutcomeKind.OK


@pytest.mark.parametrize("how", ["stage_is_garbage", "stage_is_blank", "page_is_garbage"])
def test_a_damaged_status_page_costs_no_more_than_the_stage(attacked, how):
    outcome = attacked(how)
    assert outcome.kind is OutcomeKind.CRASH


@pytest.mark.parametrize("how", ["object_output", "text_output", "struct_output", "time_output"])
def test_an_output_that_is_no_tensor_is_a_finding(attacked, how):
    outcome = attacked(how)
    assert outcome.kind is OutcomeKind.EXCEPTION
    assert outcome.error_type.endswith("OutputError") and "'y' has dtype" in outcome.message


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("no_outputs", "the program returned list, not a mapping of names to arrays"),
        ("generated_outputs", "the program returned generator, not a mapping of names to arrays"),
        ("empty_outputs", "output 'y' is missing"),
        ("none_output", "output 'y' is missing"),
        ("renamed_output", "output 'y' is missing"),
        ("numbered_output", "output 'y' is missing"),
        ("further_output", "'z' was returned, which is no output of the model"),
        ("listed_output", "output 'y' is list, not a numpy array"),
    ],
)
def test_an_output_that_is_lost_is_a_finding(attacked, how, message):
    outcome = attacked(how)
    assert (outcome.kind, outcome.stage) == (OutcomeKind.EXCEPTION, Stage.EXECUTE)
    assert outcome.error_type.endswith("OutputError") and outcome.message == message


def test_a_mapping_that_raises_is_a_finding(attacked):
    outcome = attacked("raising_outputs")
    assert (outcome.kind, outcome.stage) == (OutcomeKind.EXCEPTION, Stage.EXECUTE)
    assert outcome.message == "no items here"


@pytest.mark.parametrize("how", ["break_numpy", "break_more_of_numpy"])
def test_a_compiler_that_breaks_numpy_has_crashed(attacked, how):
    """It costs one test, and is no fault of nnfuzz."""
    outcome = attacked(how)
    assert outcome.kind is OutcomeKind.CRASH and "NumPy was broken" in outcome.captured
    assert attacked("nothing").ok
