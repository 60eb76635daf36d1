"""The conformance check passes the toy backend and refuses broken variants of it."""

from pathlib import Path

import pytest

from nnfuzz.backend.conformance import check_backend, standard_probes

TOY = Path(__file__).parent / "toy_backend.py"


def test_the_toy_backend_conforms_and_is_small():
    said = []
    fates = check_backend("toy", [TOY], say=said.append)
    assert set(fates.values()) == {"ok"}
    models = len(standard_probes())
    assert said[1] == f"toy: model 1 of {models}, add" and len(said) == models + 2
    assert len(TOY.read_text().splitlines()) <= 65


SESSION = "session = ReferenceEvaluator(module)"


@pytest.mark.parametrize(
    ("old", "new", "lesson"),
    [
        ('levels = ("O0", "O1")', "levels = ()", "at least one level"),
        ('return {"onnx": onnx.__version__}', "return {}", "version text"),
        ("= session.output_names", "= session.output_names[:1]", "output 'r' is missing"),
        ("names, session.run", "names[::-1], session.run", "wrong order"),
        ("session.run(names, inputs)", "[[1.0]] * len(names)", "not a numpy array"),
        (
            "session.run(names, inputs)",
            "[v.astype('float16').astype(v.dtype) for v in session.run(names, inputs)]",
            "TF32",
        ),
        (
            "session.run(names, inputs)",
            "[v.reshape(-1) for v in session.run(names, inputs)]",
            "shape of scalars",
        ),
        (SESSION, SESSION + "; import os; os._exit(1)", "exited with code 1"),
        (SESSION, SESSION + "; raise ValueError('too hard')", "too hard"),
    ],
)
def test_a_broken_adapter_is_taught(tmp_path, old, new, lesson):
    text = TOY.read_text()
    assert old in text
    plugin = tmp_path / "broken_toy.py"
    plugin.write_text(text.replace(old, new))
    with pytest.raises(AssertionError, match=lesson):
        check_backend("toy", [plugin])


SCRIPT = '''
    def repro(self):
        return """def run(model, inputs, level):
    import onnx
    from onnx.reference import ReferenceEvaluator

    session = ReferenceEvaluator(onnx.load_model_from_string(model))
    return dict(zip(session.output_names, session.run(None, inputs)))
"""
'''


@pytest.mark.parametrize(
    ("old", "new", "lesson"),
    [
        ("", "", ""),
        ("session.run(None, inputs)))", "[-x for x in session.run(None, inputs)]))", "computes"),
        (
            "(session.output_names",
            "([n + '_' for n in session.output_names]",
            "returns the outputs",
        ),
        (
            "    session = Ref",
            "    import nowhere\n    session = Ref",
            "fails where the adapter does",
        ),
        ("    import onnx\n", "    return inputs\n    import onnx\n", "must raise as well|outputs"),
    ],
)
def test_a_script_has_to_do_what_the_adapter_does(tmp_path, old, new, lesson):
    script = SCRIPT.replace(old, new, 1)
    assert not old or script != SCRIPT
    plugin = tmp_path / "scripted_toy.py"
    before, mark, after = TOY.read_text().partition("\n\ndef without_identities")
    plugin.write_text(before + script + mark + after)
    core = [probe for probe in standard_probes() if probe.core]
    if not lesson:
        assert set(check_backend("toy", [plugin], core).values()) == {"ok"}
        return
    with pytest.raises(AssertionError, match=lesson):
        check_backend("toy", [plugin], core)
