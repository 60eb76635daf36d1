"""What differs from model to model goes; what names the failure stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nnfuzz.backend.normalise import MAX_CHARACTERS, normalise

SAME = [
    ("Node (Conv_12) Op (Conv) failed", "Node (n3) Op (Conv) failed"),
    ("input shape {2,3}, want {}", "input shape {7,1,4}, want {5}"),
    ("shapes [1..4,?,3] and [2] at axis index.1", "shapes [?] and [5,6.] at axis index.3"),
    ("at 0xdeadbeef in /tmp/a/foo.cc:12", "at 0x1 in /build/b/c/foo.cc:99"),
    ("dim 3 is 1.5e-3", "dim 12 is -7"),
    ("cannot read 'v12'", "cannot read 'onnx::Cast_3'"),
    ('value "/Relu_output_0" is missing', 'value "p3" is missing'),
    ("f<std::vector<int>>(x)", "f<float>(x)"),
    ("call: R.matmul(gv21, alloc19, out_dtype=None)", "call: R.matmul(x, md[0]) # omitted"),
    ("\x1b[1;31m2026-11-21 11:12:31.57 bad\x1b[m", "bad"),
    ("T_add_3 and var12", "T_add_15 and var4"),
    ("expected 1,U8 got 1,1,U8", "expected 4,1,1,U8 got 7,1,1,1,U8"),
    ("cannot join 1, 2 and 3, 4, 5", "cannot join 8, 8, 8 and 3, 4"),
]
DIFFERENT = [
    ("cast to float16", "cast to float32"),
    ("cast to F16", "cast to F32"),
    ("cast to 1,U8", "cast to 1,I8"),
    ("Type 'tensor(int8)' is invalid", "Type 'tensor(int64)' is invalid"),
    ("no kernel for 'Conv'", "no kernel for 'Relu'"),
    ("unknown intrinsic 'tirx.acos'", "unknown intrinsic 'tirx.atan'"),
    ('In ir.Op(span=None, name="relax.add", n=(1, 2))', 'In ir.Op(span=None, name="relax.mul")'),
    ("relax.nn.conv2d fails", "relax.nn.conv1d fails"),
]


@pytest.mark.parametrize("one, other", SAME)
def test_alike(one, other):
    assert normalise(one) == normalise(other)


@pytest.mark.parametrize("one, other", DIFFERENT)
def test_told_apart(one, other):
    assert normalise(one) != normalise(other)


def test_names_of_the_graph_go():
    names = ["v1", "v12", "weird.name"]
    assert normalise("v12 after weird.name", names) == normalise("v1 after v12", names)
    assert normalise("overview", ["view"]) == "overview"


def test_prose_stays():
    text = "malloc(): invalid size (unsorted)"
    assert normalise(text) == text


@given(st.text(alphabet="ab1 .,:'\"()[]{}<>/#=x_\n", max_size=60))
def test_idempotent_and_bounded(text):
    once = normalise(text)
    assert len(once) <= MAX_CHARACTERS and "\n" not in once
    assert normalise(normalise(once)) == normalise(once)


def test_long_input_is_quick():
    assert len(normalise("f(a=" * 20_000)) <= MAX_CHARACTERS


def test_names_that_a_compiler_derives_from_those_of_the_model_keep_what_it_put_in_front():
    told = normalise("output arg (InsertedCast_v10/duplicated) of (Cast_p4_1)", ("v10", "p4"))
    assert told == normalise("output arg (InsertedCast_v3) of (Cast_p12)", ("v3", "p12"))
    assert "InsertedCast_<name>" in told


def test_a_compilers_own_name_reads_alike_whatever_the_values_are_called():
    said = "in _impl_v13: bad"
    assert normalise(said, ("v13", "p0")) == normalise(said, ("v1", "p0"))


def test_what_a_compiler_has_in_a_namespace_of_its_own_is_no_name_of_the_model():
    said = "no dilation for Padding::SAME_UPPER or Padding::SAME_LOWER"
    assert normalise(said, ("v0", "SAME_LOWER")) == normalise(said, ("v0", "SAME_UPPER")) == said


def test_a_name_that_is_a_word_is_one_only_where_it_is_given_as_a_value():
    """Attributes hold words such as "reflect", and so do sentences about anything else."""
    told = "3 is beyond a tensor of mode 'beyond', mode=beyond"
    assert normalise(told, ["beyond"]) == "N is beyond a tensor of mode <name>, mode=<name>"
