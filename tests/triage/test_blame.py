"""Whose fault a complaint is: of the operator that complains, or of the one that it reads."""

from dataclasses import replace

import pytest

from nnfuzz.backend.outcome import Stage

from .test_cause import error, graph, mismatch, single

EVERYWHERE = ("O0", "O1")
UNLIKE = "Binary operators must have the same datatype for both operands"


def behind(reader, message, stage=Stage.IMPORT, maker="OneHot"):
    return error(graph((maker, "x", "h"), (reader, "h", "y")), message, stage, by="tvm")


@pytest.mark.parametrize(
    ("wrong", "stage", "message"),
    [
        ("dtype", Stage.IMPORT, UNLIKE),
        ("dtype", Stage.IMPORT, "Concat expects tensors of the same dtype"),
        ("dtype", Stage.COMPILE, "Argument 0 type mismatch: expected R.Tensor((1,)), given R.a()"),
        ("shape", Stage.IMPORT, "tensors with ndim 0 and 1"),
        ("shape", Stage.IMPORT, "the first input shape at dim 3 is 4"),
        ("shape", Stage.IMPORT, "Axis is out of bounds"),
    ],
)
def test_a_complaint_is_about_the_operator_whose_own_result_is_wrong(wrong, stage, message):
    own = mismatch(single("OneHot"), kind=wrong, levels=EVERYWHERE)
    assert own == behind("Where", message, stage)
    assert own != behind("Where", message, stage, "Gather")
    assert own != error(single("Where"), message, stage)


def test_two_dtypes_that_nobody_converts_are_an_error_or_a_wrong_result():
    def power(exponent):
        made = graph(("Pow", "xp", "y"))
        values = (replace(v, dtype=exponent) if v.name == "p" else v for v in made.values)
        made = replace(made, values=tuple(values))
        return made

    said = UNLIKE + ": T.float32 and T.{}"
    own = mismatch(power("int64"), kind="dtype", levels=EVERYWHERE)
    assert own == error(power("int64"), said.format("int64"), Stage.IMPORT)
    assert own == error(power("bfloat16"), said.format("bfloat16"), Stage.IMPORT)
    assert own != error(power("float32"), said.format("float16"), Stage.IMPORT)
    assert own != error(power("int64"), "T.float32 and T.int64 have no power", Stage.IMPORT)


def test_a_shape_that_an_importer_does_not_know_is_not_a_wrong_one():
    lost = behind("ArgMax", "object of type 'NoneType' has no len()")
    assert lost == behind("Slice", "the given one has ndim -1, other than the length of axes 1")
    assert lost != mismatch(single("OneHot"), kind="shape", levels=EVERYWHERE)


def test_a_sentence_with_a_footnote_is_read_to_its_end():
    plain = UNLIKE + '. However, R.power(p, q) uses {} (Type of R.Tensor((1,), dtype="{}"))'
    noted = (
        UNLIKE + '. However, R.power(metadata["ir.GenericConst"][0], q)\n'
        "# Metadata omitted. Use show_meta=True in script() method to show it. "
        'uses {} (Type of R.Tensor((1,), dtype="{}"))'
    )

    def said(text, dtype):
        return error(single("Pow"), text.format(dtype, dtype), Stage.IMPORT, by="tvm")

    assert said(plain, "float32") == said(noted, "float32") != said(noted, "int8")


def test_what_needs_a_rewrite_is_known_by_its_rule_and_not_by_the_operators():
    said = "Type Error: Type '{}' of input parameter (p{}) of operator (part_{}) is invalid."

    def failing(dtype, type_, *operators, rule="nested_function"):
        made = graph((operators[0], "x", "h"), (operators[-1], "h", "y"), dtype=dtype)
        message = said.format(type_, len(operators), len(dtype))
        return error(made, message, by="onnxruntime", form=f"direct+{rule}#{len(dtype)}")

    one = failing("float8_e5m2", "tensor(float8e5m2)", "Cast", "Less")
    assert one == failing("int64", "optional(tensor(int64))", "OptionalGetElement")
    assert one != failing("int64", "tensor(int64)", "Cast", rule="loop_once")


def test_a_file_that_is_read_wrongly_is_one_cause_for_all_operators():
    files = "direct+external_data#7"
    wrong = mismatch(single("Relu"), form=files)
    assert wrong == mismatch(single("Conv"), kind="nonfinite", levels=EVERYWHERE, form=files)
    assert wrong == mismatch(single("Tile"), kind="shape", form=files)
    axis = "axis 2779096485 is out of range"
    assert wrong == error(single("Squeeze"), axis, Stage.EXECUTE, form=files)
    missing = error(single("Relu"), "no such file", Stage.IMPORT, form=files)
    assert missing == error(single("Conv"), "no such file", Stage.IMPORT, form=files) != wrong
    assert wrong != mismatch(single("Relu"), form="direct+values_renamed#7")
    for form in ("direct", "direct+operand_as_input#1", "direct+unheard_of#1"):
        assert mismatch(single("Relu"), form=form) != mismatch(single("Conv"), form=form)


def test_what_another_compiler_says_of_generated_code_is_one_cause():
    def written(op, said, file="gen-1f"):
        log = (
            f"c++ {file}.cpp: exit status 1\n{file}.cpp:7:12: error: {said}\n{file}.h:9:1: note: x"
        )
        return error(single(op), log)

    one = written("Split", "redeclaration of 'auto v3_14'")
    assert one == written("TopK", "redeclaration of 'auto /Split_output_0_3'", "gen-x9")
    assert one != written("Split", "'class Tile<bool, 2>' has no member named 'mask'")


def test_a_native_function_is_called_at_import_or_later():
    native = '  File "const_fold.h", line 1, in tvm::TryConstFold(int)\n'
    made = single("Resize")
    one = error(made, "Divide by zero", Stage.IMPORT, native)
    assert one == error(made, "Divide by zero", Stage.COMPILE, native)
    assert one != error(made, "Divide by zero", Stage.COMPILE)


def test_reductions_of_nothing_are_one_as_far_as_they_are_no_copies():
    def reduction(op, axes):
        made = single(op)
        made = replace(made, nodes=(replace(made.nodes[0], attributes={"axes": axes}),))
        return mismatch(made, levels=EVERYWHERE)

    assert reduction("ReduceL1", []) == reduction("ReduceLogSum", [])
    assert reduction("ReduceL1", [0]) != reduction("ReduceLogSum", [0])
    assert reduction("ReduceL1", []) != reduction("ReduceL1", [0])


def test_a_native_function_comes_before_a_rewrite_and_that_before_an_operator():
    def failing(op, message, form="direct"):
        return error(single(op), message.format(op), Stage.EXECUTE, form=form)

    native = "while running {} node: quantize.cc void ort::Prepare(const Shape&) bad block"
    rewrite = "direct+loop_once#1"
    assert failing("Relu", native, rewrite) == failing("Conv", native)
    named = "while running {} node: out of luck"
    assert failing("Relu", named, rewrite) == failing("Conv", named, rewrite)
    assert failing("Relu", named) != failing("Conv", named)
