import pytest

from nnfuzz.backend.causes import DIRECT
from nnfuzz.triage.headline import from_compiler, native_frames, python_frames, raising_line
from nnfuzz.triage.signature import error_details

from .test_signature import crashed

TRACEBACK = """Traceback (most recent call last):
  File "/venv/tvm/onnx_frontend.py", line 6798, in from_onnx
    return g.from_onnx(graph, opset)
  File "/src/op_common.cc", line 162, in tvm::Optional<tvm::A<int> > tvm::relax::Infer(const Call&)
ValueError: bad
"""
NATIVE = """Thread 1 received signal SIGSEGV
#0  0x00007f in __GI_raise (sig=6) at raise.c:50
#1  0x00007f in onnxruntime::Conv<float>::Compute (this=0x1) at conv.cc:12
#2  0x00007f in onnxruntime::Run(int) at run.cc:3
  3: tvm::runtime::Invoke(tvm::Args)
/lib/libfoo.so(do_thing+0x12) [0x7f]
nothing here
"""


def test_python_frames_with_those_that_a_compiler_adds():
    assert python_frames(TRACEBACK) == [
        "onnx_frontend.py:from_onnx",
        "op_common.cc:tvm::relax::Infer",
    ]


def test_most_recent_call_first_is_turned_round():
    text = 'Stack (most recent call first):\n  File "/a/x.py", line 1 in inner\n'
    text += '  File "/a/y.py", line 2 in outer\n'
    assert python_frames(text) == ["y.py:outer", "x.py:inner"]


def test_native_frames_leave_the_runtime_out():
    assert native_frames(NATIVE) == [
        "onnxruntime::Conv::Compute",
        "onnxruntime::Run",
        "tvm::runtime::Invoke",
        "do_thing",
    ]


def test_where_a_library_refuses_operands_its_caller_is_at_fault():
    frames = ["array::slice", "toy_ops::Pad::eval", "toy_core::run"]
    assert from_compiler(frames) == frames[1:]
    for kept in (frames[1:], ["memcpy", *frames], []):
        assert from_compiler(kept) == kept
    dying = "Fatal Python error: Segmentation fault", "toy.cc:7: Assertion `n > 0' failed."
    traces = (f"{text}\n 0: array::slice\n 1: toy::pad\n 2: toy::run" for text in dying)
    details = (error_details(crashed("O0", text)) for text in traces)
    assert [own.frames[-1] for own in details] == ["array::slice", "toy::pad"]


def test_no_frames():
    assert python_frames("") == native_frames("some\ntext (with) parentheses") == []


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("   7:     0x73ac08bf - toy::lower::run::h896a0727a1a943f9", "toy::lower::run"),
        ("  12: toy::lower::run::{{closure}}", "toy::lower::run"),
        ("  12: <toy::Add as toy::Op>::call", "toy::Add::call"),
        ("  12: <toy::Add<u8> as toy::Op<X>>::call::<u8>", "toy::Add::call"),
        ("  12: <T as toy::Op>::call", None),
        ("  12: <alloc::boxed::Box<dyn toy::Op> as core::ops::FnOnce>::call", None),
        ("  12: core::panicking::panic_fmt", None),
        ("  11: __rustc::rust_begin_unwind", None),
        ("  12: core::Graph::run(int)", "core::Graph::run"),
        ("#1 0x55d013 in stride /src/toy.c:70:3", "stride"),
        ("#1 0x55d013 in toy::Infer(void*, char const*) /src/toy.cpp:70", "toy::Infer"),
        ("#1 0x55d013 in toy_run /src/toy.c:70:3", "toy_run"),
        ("#0 0x7f01 in __asan_memcpy (/usr/lib/libasan.so.8+0x1)", None),
        ("/lib/libtoy.so(_ZN3toy5Graph3runEv+0x1f) [0x7f01]", "toy::Graph::run"),
        ("/lib/libc.so.6(abort+0x16a) [0x7f01]", None),
        ("    at org.toy.Graph.run(Graph.java:12)", "org.toy.Graph.run"),
        ("    at java.lang.Thread.run(Thread.java:829)", None),
        ("    at Graph.run (toy.min.js:9:3068)", "Graph.run"),
        ("3   libtoy.dylib   0x00000001997f4194 toy_run + 508", "toy_run"),
        ("3   libdispatch.dylib   0x00000001997f4194 _dispatch_run + 508", None),
    ],
)
def test_frames_of_every_runtime(line, name):
    assert native_frames(f"dying\n{line}\nbye") == ([name] if name else [])


def test_the_frames_of_go_are_known_behind_their_headline():
    frame = "example.org/toy/graph.(*Graph).Run(0xc000, 0x1)\n\t/src/graph.go:22 +0xec\n"
    told = f"panic: x\n\ngoroutine 1 [running]:\n{frame}main.main()\n\t/src/main.go:3 +0x1\n"
    assert native_frames(told) == ["graph.(*Graph).Run"]
    assert native_frames("called Run(0xc000)\n") == []


def test_frames_that_are_numbered_from_the_outermost_are_turned_round():
    assert native_frames("  1: toy::outer()\n  0: toy::inner()\n") == ["toy::inner", "toy::outer"]


def test_pythons_own_library_is_no_place():
    text = 'Traceback (most recent call last):\n  File "/toy/a.py", line 1, in run\n    next()\n'
    text += '  File "PYTHON/contextlib.py", line 2, in __enter__\n    go()\nKeyError\n'
    assert python_frames(text) == ["a.py:run"]


def test_a_line_of_python_is_a_place_if_it_has_the_words_of_its_error():
    frame = '  File "toy/api.py", line {}, in run\n    {}\n{}: x\n'
    outer = frame.format(8, "raise Error from e", "toy.Error")
    for error, source, place in (
        ("RuntimeError", "super().compile(model)", ""),
        ("RuntimeError", "raise RuntimeError(text)", ""),
        ("RuntimeError", 'raise RuntimeError(f"{x} is bad")', "api.py:9"),
        ("KeyError", "self.table[name]", "api.py:9"),
    ):
        text = frame.format(9, source, error)
        assert raising_line(error, "x", text) == place
        assert raising_line("toy.Error", "x", f"{text}\n{DIRECT}\n\n{outer}") == place


def test_the_line_of_a_panic():
    for text in ("at src/toy/add.rs:12:5:\nno", "at 'no', C:\\src\\add.rs:12:5\n"):
        assert raising_line("", f"thread 'main' panicked {text}", "") == "add.rs:12"
    assert raising_line("", "no", "") == ""
