from nnfuzz.triage.frames import foreign_traceback, native_frames, python_frames

TRACEBACK = """Traceback (most recent call last):
  File "/checkout/nnfuzz/execute/service.py", line 112, in _timed
    return step()
  File "/venv/site-packages/nnfuzz/backends/tvm.py", line 81, in load
    from_onnx(proto),
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


def test_python_frames_leave_nnfuzz_out():
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


def test_no_frames():
    assert python_frames("") == native_frames("some\ntext (with) parentheses") == []


def test_a_traceback_is_shown_without_our_frames_and_paths():
    text = """Traceback (most recent call last):
  File "/home/me/nnfuzz/execute/service.py", line 1, in _timed
    return step()
           ^^^^^^
  File "/venv/lib/python3.11/site-packages/onnxruntime/capi/x.py", line 2, in __init__
    self._create()
onnxruntime.Fail: no
  second line of the message
"""
    shown = foreign_traceback(text)
    assert "service.py" not in shown and "step()" not in shown and "/venv" not in shown
    assert '"onnxruntime/capi/x.py", line 2' in shown
    assert shown.endswith("onnxruntime.Fail: no\n  second line of the message")
