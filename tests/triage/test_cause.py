"""Which reduced failures are one: same operators and kinds of dtypes, or same error, or pass."""

from dataclasses import replace

from nnfuzz.backend.numeric import SATURATES, Deviation
from nnfuzz.backend.outcome import OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.compare.mismatch import Element, Verdict
from nnfuzz.ir.support_key import edge_keys
from nnfuzz.ir.view import GraphView, NodeView, ValueView
from nnfuzz.triage.cause import Cause, Symptoms
from nnfuzz.triage.pattern import Pattern, pattern_of, upstream
from nnfuzz.triage.signature import failures, text_of

from .test_signature import crashed, failed, outcome, verdict


def graph(*nodes, dtype="float32"):
    """nodes: (op, inputs, output) by names; what nobody computes is an input."""
    names = dict.fromkeys(n for _, inputs, output in nodes for n in (*inputs, output))
    return GraphView(
        tuple(ValueView(name, dtype, (2,)) for name in names),
        tuple(NodeView(op, tuple(inputs), (output,)) for op, inputs, output in nodes),
    )


BACKENDS = BackendRegistry.discover()
ORT = "onnxruntime"
FUSED = graph(("Relu", "x", "h"), ("Conv", "hw", "y"))


def mismatch(made, output="y", kind="value", levels=("O1",), worst=None, form="", **symptoms):
    ran = [outcome("O0"), outcome("O1")]
    told = verdict(**{level: [(output, kind)] for level in levels})
    if worst is not None:
        element = Element(**{"index": (), **worst})
        told = Verdict(
            {t: tuple(replace(m, worst=element) for m in ms) for t, ms in told.mismatches.items()}
        )
    (failure,) = failures(ran, told, made)
    failure = replace(failure, targets=tuple(replace(t, form=form) for t in failure.targets))
    return Cause.of(failure, made, Symptoms(verdict=told, **symptoms)).hash


def error(
    made,
    message,
    stage=Stage.COMPILE,
    frames="",
    by="",
    error_type="pkg.Error",
    form="",
    **symptoms,
):
    """by: whose adapter reads the message. form: of the model."""
    traceback = "Traceback (most recent call last)\n" + frames
    ran = failed("O0", message, traceback=traceback)
    target = replace(ran.target, form=form)
    ran = replace(ran, target=target, stage=stage, error_type=error_type)
    if by:
        ran = replace(ran, complaint=BACKENDS.get(by).complaint(text_of(ran)))
    (failure,) = failures([ran], None, made)
    return Cause.of(failure, made, Symptoms(**symptoms)).hash


def single(op, dtype="float32"):
    return graph((op, "x", "y"), dtype=dtype)


def test_names_and_the_order_of_independent_nodes_do_not_matter():
    one = graph(("Abs", "a", "b"), ("Exp", "c", "d"), ("Add", "bd", "y"))
    two = graph(("Exp", "q", "r"), ("Abs", "s", "t"), ("Add", "tr", "z"))
    assert pattern_of(one) == pattern_of(two)
    assert mismatch(one) == mismatch(two, "z")


def test_what_a_value_depends_on():
    whole = graph(("Abs", "x", "a"), ("Erf", "a", "b"), ("Exp", "a", "c"), ("Tan", "x", "y"))
    assert [node.op for node in upstream(whole, "c").nodes] == ["Abs", "Exp"]
    assert pattern_of(single("Erf")).within(pattern_of(whole))
    assert not pattern_of(single("Erf")).within(pattern_of(upstream(whole, "c")))
    assert not pattern_of(FUSED).within(Pattern(pattern_of(FUSED).nodes, ()))


def test_a_mismatch_is_known_by_operators_edges_levels_and_kinds_of_dtypes():
    other = [
        graph(("Relu", "x", "h"), ("Conv", "hw", "y"), dtype="int64"),
        graph(("Relu", "x", "h"), ("Conv", "xw", "y")),
        graph(("Conv", "xw", "y")),
    ]
    hashes = {mismatch(made) for made in (FUSED, *other)} | {mismatch(FUSED, levels=("O0", "O1"))}
    assert len(hashes) == 5
    assert mismatch(FUSED, kind="nonfinite") == mismatch(FUSED) != mismatch(FUSED, kind="shape")
    wider = graph(("Relu", "x", "h"), ("Conv", "hw", "y"), dtype="float64")
    assert mismatch(FUSED) == mismatch(wider)


def test_a_lack_of_precision_is_another_kind_of_wrong():
    few, none = {"expected": 0.1, "actual": 0.10000000149}, {"expected": 0.1, "actual": 0.7}
    made = single("Resize", "float64")
    assert mismatch(made, worst=few) != mismatch(made, worst=none) == mismatch(made)
    assert mismatch(made, worst={"expected": 0.1, "actual": "nan"}) == mismatch(made)
    worst = ((0.0176, 0.01760001), (9.4e-5, 9.5e-5), (9.4e-5, 0.0), (0.94, 0.95))
    erf = [mismatch(single("Erf"), worst={"expected": e, "actual": a}) for e, a in worst]
    assert erf[0] == erf[1] != erf[2] == erf[3]  # of what cancels near 1, one digit is left
    whole, large = single("Sum", "int64"), {"expected": 3368090354368355628, "actual": 1 << 61}
    close = {"expected": 3368090354368355628, "actual": 3368090354368355840}
    assert mismatch(whole, worst=close) != mismatch(whole, worst=large)
    assert mismatch(whole, worst={"expected": 1000001, "actual": 1000002}) == mismatch(whole)


def test_digits_that_are_lost_beside_a_large_number_may_be_all():
    few, nan = {"expected": 0.5, "actual": 0.500001}, {"expected": 0.0, "actual": "nan"}
    made = single("LRN")
    lost, other = (mismatch(made, kind="nonfinite", worst=nan, largest=n) for n in (1e4, 2.0))
    assert lost == mismatch(made, worst=few) != other == mismatch(made, largest=1e4)
    kept = {"expected": "nan", "actual": 1e30}  # a NaN that is lost is no digit
    assert mismatch(made, kind="nonfinite", worst=kept, largest=1e30) == other


def test_modes_of_an_onnx_operator_are_one_in_whatever_dtypes():
    linear, nearest = single("ResizeLinear"), single("ResizeNearest", "float64")
    assert mismatch(linear) != mismatch(nearest)
    assert mismatch(linear, operator="Resize") == mismatch(nearest, operator="Resize")
    assert mismatch(single("Div", "int8")) != mismatch(single("Div", "float64"))


def test_an_integer_that_stops_at_the_end_of_its_range_was_a_float_meanwhile():
    made, right = single("Einsum", "int64"), {"expected": 8902252106469969828}
    digits = mismatch(made, worst=right | {"actual": 8902252106469969800})
    assert digits == mismatch(made, worst=right | {"actual": (1 << 63) - 1})
    assert digits != mismatch(made, worst=right | {"actual": 0})


def test_a_loop_with_too_narrow_an_accumulator_is_one_for_all_reductions():
    few = {"expected": 3368090354368355628, "actual": 3368090354368355840}
    one, two, other = (single(op, "int64") for op in ("ReduceSum", "ReduceL1", "Shrink"))
    assert mismatch(one, worst=few) == mismatch(two, worst=few) != mismatch(other, worst=few)
    assert mismatch(one) != mismatch(two)


def test_a_rounding_that_is_lost_between_casts_does_not_depend_on_what_is_computed():
    def there_and_back(inner):
        return graph(("Cast", "x", "a"), (inner, "a", "b"), ("Cast", "b", "y"))

    always = {"levels": ("O0", "O1")}
    assert mismatch(there_and_back("Neg"), **always) == mismatch(there_and_back("Abs"), **always)
    assert mismatch(there_and_back("Neg")) != mismatch(there_and_back("Abs"))
    twice = [("Cast", "x", "a"), ("Cast", "a", "y")]
    assert mismatch(graph(*twice), **always) != mismatch(graph(*twice, dtype="int8"), **always)


def test_an_error_of_an_operator_in_two_dtypes_is_one():
    text = "the left side is float32, the right side is "
    one, two = (
        error(single("Elu", "float64"), text + "float64"),
        error(single("Elu", "float16"), text + "half"),
    )
    assert one == two != error(single("Selu", "float64"), text + "float64")
    ops, form = ("Split", "com.x.Expand"), "direct+external_data#1"
    said = (f"no data for {op.rpartition('.')[2]}" for op in ops)
    one, two = (error(single(op), text, form=form) for op, text in zip(ops, said))
    assert one == two


def test_operators_in_a_message_are_parameters_where_a_native_frame_says_so():
    native, python = (f'  File "{file}", line 1, in {name}\n' for file, name in FRAMES)

    def said(op, frames):
        return error(single(op), f"unknown intrinsic 'tirx.{op.lower()}'", frames=frames)

    assert said("Asin", native) == said("Acos", native)
    assert said("Asin", python) != said("Acos", python)
    two = graph(("Asin", "x", "h"), ("Acos", "h", "y"))
    assert error(two, "unknown intrinsic 'tirx.acos'", frames=native) == said("Asin", native)


FRAMES = (("codegen.cc", "tvm::CodeGen::Intrinsic(int)"), ("frontend.py", "convert"))


def test_what_an_importer_cannot_take_is_the_fault_of_what_made_it():
    def behind(maker, reader, message, stage=Stage.IMPORT):
        return error(graph((maker, "x", "h"), (reader, "h", "y")), message, stage)

    one = behind("Gather", "Slice", "Slice needs a rank")
    assert one == behind("Gather", "Flatten", "no shape")
    assert one != behind("Squeeze", "Slice", "Slice needs a rank")
    assert one == behind("Gather", "TopK", "TopK needs a rank", Stage.COMPILE)
    assert one == behind("Gather", "Cast", "cannot emit this operator", Stage.COMPILE)
    assert one != behind("Gather", "Cast", "out of registers", Stage.COMPILE)
    assert one == error(single("Gather"), "only takes a known shape", Stage.COMPILE)
    assert one != error(single("Gather"), "Gather is bad", Stage.IMPORT)


def test_an_error_keeps_its_text():
    (one,), (two,) = failures([failed("O0")]), failures([failed("O0", "worse")])
    assert Cause.of(one, FUSED).hash != Cause.of(two, FUSED).hash
    assert (
        Cause.of(one, FUSED).hash
        == Cause.of(replace(one, targets=(Target("toy", pipeline="O9"),)), FUSED).hash
    )


def test_a_pattern_reads_well():
    assert str(pattern_of(FUSED)) == "Relu, Conv (float32)"
    assert str(pattern_of(None)) == ""
    assert pattern_of(FUSED).edges == ("Relu->Conv(float32)",)
    long = graph(*[("Abs", f"{i}", f"{i + 1}") for i in range(8)])
    assert str(pattern_of(long)) == "Abs, Abs, Abs, Abs, Abs, Abs and 2 more (float32)"


def test_edges_name_two_operators_and_a_dtype():
    assert edge_keys(FUSED) == ("Relu->Conv(float32)",)


def test_one_wrong_pass_is_one_bug_in_whatever_pattern():
    fuse = {"passes": ("Fuse",)}
    other = graph(("Conv", "xw", "y"))
    assert mismatch(FUSED, **fuse) == mismatch(other, **fuse)
    assert mismatch(FUSED, **fuse) != mismatch(FUSED, passes=("Fold",))
    assert mismatch(FUSED, **fuse) != mismatch(FUSED)
    assert mismatch(FUSED, **fuse) != mismatch(FUSED, kind="shape", **fuse)
    assert mismatch(other, kind="shape", **fuse) == mismatch(FUSED, kind="shape", **fuse)
    assert mismatch(FUSED, **fuse) != error(FUSED, "bad", **fuse) != error(FUSED, "worse", **fuse)
    assert (
        error(FUSED, "bad Relu", **fuse)
        == error(other, "bad Conv", **fuse)
        != error(FUSED, "bad Relu")
    )
    folded = {"passes": ("Fold",), "rewrites": ("Relu",)}
    assert mismatch(FUSED, **folded) != mismatch(FUSED, passes=("Fold",), rewrites=("Conv",))
    raised = error(FUSED, "Relu is gone", **folded)
    assert raised == error(other, "Conv is gone", passes=("Fold",), rewrites=("Conv",))
    assert raised != error(other, "Conv is bad", passes=("Fold",), rewrites=("Conv",))


def test_a_graph_in_several_calls_needs_them_or_a_symbolic_dimension():
    chain = (("Relu", "x", "h"), ("Neg", "h", "y"))
    sizes = ("", "_at1", "_at2")
    many = graph(*((op, [f"{i}{k}"], f"{o}{k}") for k in sizes for op, i, o in chain))
    one = graph(*chain)
    assert str(pattern_of(many)) == "Relu, Neg, several calls (float32)"
    wide = (replace(v, shape=(3,)) if "_at" in v.name else v for v in many.values)
    sized = replace(many, values=tuple(wide))
    assert str(pattern_of(sized)) == "Relu, Neg, a symbolic dimension (float32)"
    assert pattern_of(one).within(pattern_of(many))
    assert not pattern_of(many).within(pattern_of(one))
    assert mismatch(many) != mismatch(one)


def test_what_a_node_says_of_its_inputs_type_concerns_the_one_before_it():
    def failing(consumer, message, error_type):
        made = graph(("BatchNormalization", "x", "h"), (consumer, "h", "y"))
        return error(made, message, error_type=error_type, by="tvm")

    one = failing("Mul", "Binary operators must have the same datatype", "TypeError")
    assert one == failing("Concat", "Concat expects inputs of the same dtype", "TypeError")
    assert one != failing("Mul", "Binary operators must have the same datatype", "InternalError")
    assert one == mismatch(single("BatchNormalization", "float16"), kind="dtype")
    assert one != mismatch(single("BatchNormalization", "float16"), kind="shape")
    moved = graph(("BatchNormalization", "x", "h"), ("Reshape", "h", "r"), ("Resize", "r", "y"))
    ran = replace(failed("O0", "of another datatype"), error_type="TypeError")
    (failure,) = failures([replace(ran, stage=Stage.COMPILE)], None, moved)
    assert Cause.of(failure, moved).hash == one


def test_inference_fails_because_of_what_is_between_or_of_what_it_is_about():
    def failing(*operators):
        text = f"Node (n) Op ({operators[-1]}) [ShapeInferenceError] must have rank 1"
        names = "xabcdefgh"
        steps = zip(operators, names, names[1:], strict=False)
        return error(graph(*steps), text, by="onnxruntime")

    assert failing("Loop", "Attention", "Conv") == failing("If", "Attention", "DFT")
    assert failing("Loop", "STFT") == failing("SplitToSequence", "STFT") != failing("Loop", "DFT")


def test_a_result_is_that_of_the_operator_of_onnx_that_computes_it():
    """Two operators of ours may end in the same one of ONNX."""

    def failing(first, **symptoms):
        made = graph((first, "x", "h"), ("ArgMax", "h", "y"))
        return error(made, "must be of rank 4", Stage.IMPORT, **symptoms)

    types = {"types": {"h": "ConcatFromSequence"}}
    assert failing("SplitToSequence", **types) == failing("ConcatFromSequence")
    assert failing("SplitToSequence") != failing("ConcatFromSequence")


def test_an_error_without_a_cause_before_it_keeps_operator_or_function():
    native = '  File "op.cc", line 1, in tvm::prim::pow(int)\n'
    assert error(single("Pow"), "only floats", frames=native) == error(
        single("LRN"), "only floats", frames=native
    )
    for vague in ("cannot emit this operator", "output 0: expected shape [1,1], got [1]"):
        assert error(single("A"), vague, frames=native) != error(single("B"), vague, frames=native)
    behind = graph(("Dequantize", "x", "h"), ("Rotary", "h", "y"))
    text = "while running Rotary node: not supported"
    assert error(behind, text, Stage.EXECUTE) == error(single("Rotary"), text, Stage.EXECUTE)


def test_a_sum_of_integers_in_a_float_is_one_for_all_that_accumulate():
    few = {"expected": 3368090354368355628, "actual": 3368090354368355840}
    sums, product = single("Einsum", "int64"), single("Mul", "int64")
    wider = ValueView("x", "int64", (7, 2)), ValueView("y", "int64", (2,))
    reduced = mismatch(single("ReduceSum", "int64"), worst=few)
    assert mismatch(replace(sums, values=wider), worst=few) == reduced
    along_one = ValueView("x", "int64", (1, 2)), ValueView("y", "int64", (2,))
    assert mismatch(replace(sums, values=along_one), worst=few) == reduced
    assert mismatch(sums, worst=few) != reduced != mismatch(product, worst=few)
    wider = ValueView("x", "float64", (7, 2)), ValueView("y", "float64", (2,))
    assert mismatch(replace(single("Einsum"), values=wider), worst=few) != reduced


def test_what_is_switched_on_tells_bugs_of_one_operator_apart():
    def resized(**attributes):
        (node,) = single("ResizeCubic").nodes
        made = replace(single("ResizeCubic"), nodes=(replace(node, attributes=attributes),))
        return mismatch(made, operator="Resize")

    plain = resized(transformation="half_pixel", exclude_outside=0, scales=[0.5])
    assert plain == resized(transformation="half_pixel", scales=[1])
    assert plain != resized(transformation="align_corners")
    assert plain != resized(exclude_outside=1) != resized(transformation="align_corners")


def test_memory_planned_for_another_shape_is_a_fault_of_inference():
    made = graph(("Abs", "x", "g"), ("Attention", "g", "h"), ("If", "h", "y"))
    told = "output OrtValue provided for output y has shape {1} but the computed one is {1,1}"
    inferred = error(made, "Node (n) Op (If) [ShapeInferenceError] rank is 0", by=ORT)
    assert error(made, told, Stage.EXECUTE, by=ORT) == inferred
    assert error(made, "out of luck", Stage.EXECUTE) != inferred


def test_an_if_that_an_exporter_added_is_to_blame_for_what_is_said_behind_it():
    def blame(message, branches, *operators, stage=Stage.IMPORT):
        made = graph(*((op, [f"v{i}"], f"v{i + 1}") for i, op in enumerate(operators)))
        outcomes = [outcome("O0", OutcomeKind.EXCEPTION, stage, error_type="E", message=message)]
        (failure,) = failures(outcomes, None, made)
        return Cause.of(failure, made, Symptoms(branches=branches)).parts.get("of")

    for message in ("Slice requires a known rank", "ndim is 2", "is not iterable"):
        assert blame(message, True, "Squeeze", "Slice") == ["If"] == blame(message, True, "Squeeze")
        assert blame(message, False, "Squeeze", "Slice") == ["Squeeze"]
    assert blame("different datatypes", True, "Squeeze", "Gather", "Slice") == ["Gather"]
    assert blame("is not iterable", True, "Squeeze", "Slice", stage=Stage.EXECUTE) is None


def test_saturation_of_any_integer_is_one_decision_and_narrowing_is_one_for_each_type():
    made = graph(("Add", "ab", "y"))

    def habit(*told):
        shown = verdict(O1=[("y", "value")])
        shown = replace(shown, explained={target: told for target in shown.mismatches})
        (failure,) = failures([outcome("O0"), outcome("O1")], shown, made)
        return Cause.of(failure, made, Symptoms(verdict=shown)).hash

    int8, uint8 = (Deviation(dtype, SATURATES) for dtype in ("int8", "uint8"))
    int64, uint64 = (Deviation(dtype, "int32") for dtype in ("int64", "uint64"))
    assert habit(int8) == habit(uint8) != habit(int64) != habit(uint64)


def test_misused_memory_is_known_by_the_operator_and_not_by_how_the_process_died():
    def death(operator, *ran, inputs=("x",)):
        made = replace(graph((operator, "x", "y")), inputs=inputs)
        (failure,) = failures(ran, None, made)
        return Cause.of(failure, made).hash

    here = death("Identity", crashed("O0"), outcome("O1"))
    for words in ("malloc(): invalid size (unsorted)", "corrupted size vs. prev_size"):
        aborted = crashed("O1", f"noise\n{words}", "SIGABRT")
        assert death("Identity", outcome("O0"), aborted) == here != death("Abs", aborted)
    earlier = replace(crashed("O0"), stage=Stage.COMPILE)
    assert death("Identity", earlier, inputs=()) == here != death("Identity", earlier)
    asserted = crashed("O0", "toy.cc:7: Assertion `size > 0' failed.", "SIGABRT")
    framed = crashed("O0", "#1  0x1 in toy::fuse (x=1) at fuse.cc:1")
    assert here not in (death("Identity", asserted), death("Identity", framed))


def test_one_statement_at_import_and_at_execution_is_one_cause():
    made, told = graph(("Elu", "x", "y")), "table of layouts: no rule maps the layout"
    deep = '  File "/toy/run.py", line 3, in walk\n    f()\n'
    one, other = error(made, told, Stage.IMPORT), error(made, told, Stage.EXECUTE, deep)
    assert one == other != error(made, f"{told} twice", Stage.EXECUTE)
    assert error(made, "bad", Stage.IMPORT) != error(made, "bad", Stage.EXECUTE)
