"""Which errors a compiler has meant as its answer, by their class and place."""

import pytest

from nnfuzz.backend.complaint import CompilerError
from nnfuzz.backend.internal import reads_as_internal
from nnfuzz.backend.stage import Stage

OWN = "/site-packages/toycompiler/importer.py"
NUMPY = "/site-packages/numpy/_core/shape.py"


def error(kind, message="", file=OWN, line="shape = attrs['perm']"):
    trace = (
        "Traceback (most recent call last):\n"
        '  File "/nnfuzz/backend.py", line 1, in load\n    return toycompiler.parse(model)\n'
        f'  File "{file}", line 7, in convert\n    {line}\n{kind}: {message}\n'
    )
    return CompilerError(Stage.IMPORT, kind, message, trace)


@pytest.mark.parametrize(
    ("told", "internal"),
    [
        (error("KeyError", "'perm'"), True),
        (error("KeyError", "'no such operator'", line="raise KeyError(name)"), False),
        (error("TypeError", "'NoneType' object is not iterable"), True),
        (error("TypeError", "wrong", file=NUMPY, line="raise TypeError(text)"), True),
        (error("AssertionError", "two inputs", line="raise AssertionError(text)"), True),
        (error("RecursionError", "maximum recursion depth exceeded"), True),
        (error("ValueError", "axis 7 is out of range", line="raise ValueError(text)"), False),
        (error("ValueError", "axis 7 is out of range", line="native.build(graph)"), False),
        (error("ValueError", "not enough values to unpack (expected 3, got 2)"), True),
        (
            error("ValueError", "cannot reshape array of size 3", file=NUMPY, line="return f()"),
            True,
        ),
        (error("toycompiler.errors.InternalError", "x", line="raise error"), True),
        (error("toycompiler.errors.ImportError", "bad axis", line="raise error"), False),
        (error("onnx.checker.ValidationError", "bad axis", file="/onnx/checker.py"), False),
        (error("google.protobuf.message.DecodeError", "truncated", file="/onnx/x.py"), False),
        (error("TypeError", "UNDEFINED", file="/onnx/reader.py", line="raise TypeError(x)"), False),
        (error("KeyError", "99", file="/onnx/reader.py", line="return TYPES[dtype]"), True),
        (error("RuntimeError", "the axis is out of range", line="native.build(graph)"), False),
        (error("RuntimeError", "vector::_M_range_check: __n (which is 3)"), True),
        (error("RuntimeError", "Converting input model\nstoull"), True),
        (error("RuntimeError", "this should never happen"), True),
        (error("TypeError", "wrong dtype", file="/src/relax/op.cc", line=""), False),
    ],
    ids=lambda value: value.error_type if isinstance(value, CompilerError) else str(value),
)
def test_class_and_place_tell(told, internal):
    assert reads_as_internal(told, {"toycompiler"}) is internal
