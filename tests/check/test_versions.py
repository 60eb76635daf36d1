"""What ONNX admits at an opset, versions of operators, and judgements that are kept."""

from __future__ import annotations

import json

import pytest
from nnfuzz.opspecs.attention import Attention, AttentionWindowed
from nnfuzz.opspecs.pool import GlobalLpPool

from nnfuzz.check.versions import (
    Judgements,
    admitted_by_schema,
    illegal,
    legal_opsets,
    newest_of_version,
    version_of,
)
from nnfuzz.generate.config import GenerateConfig
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.families.elementwise import Unary
from nnfuzz.operators.operator import In, operator
from nnfuzz.operators.registry import OpRegistry

SMALL = (In("T", (DType.FLOAT32, DType.INT8)),)
SIGNATURE = ({"T": DType.INT8}, DType.INT8)


@operator
class Relu(Unary):
    """One ONNX operator of the same name: its schema tells."""

    inputs = SMALL


@operator
class Twice(Unary):
    """Another lowering: inference over it tells."""

    inputs = SMALL

    def onnx(self, emit, x):
        return emit("Add", x, emit.const(0, emit.type(x).dtype))


@operator
class Widened(Twice):
    """A detour for old opsets makes a signature legal there."""

    def onnx(self, emit, x):
        wide = super().onnx(emit, x) if emit.opset >= 14 else emit("Cast", x, to=DType.INT8)
        return wide


def test_the_schema_or_the_lowering_decides():
    for spec in (Relu, Twice):
        assert illegal([spec], 13) == {f"{spec.name}(int8)->int8"}
        assert not illegal([spec], 14)
        assert legal_opsets(spec, SIGNATURE) == list(range(14, 27))
    assert not illegal([Widened], 13)


def test_nothing_is_legal_before_the_spec_lowers():
    class Late(Relu):
        name, since = "Relu", 20

    assert len(illegal([Late], 19)) == 2 and not illegal([Late], 20)


def test_inputs_of_one_type_variable_have_one_type():
    norm = OpRegistry.load().get("BatchNormalization")
    mixed = next(s for s in norm.signatures() if s[0]["T"] is not s[0]["P"])
    assert legal_opsets(norm, mixed)[0] == 15


def test_signatures_with_late_parts_are_illegal_for_older_releases():
    specs = [AttentionWindowed, Attention, GlobalLpPool]
    always = illegal(specs, 26)
    assert always == illegal(specs, 26, "1.23.2")
    refused = illegal(specs, 26, "1.22.0") - always
    assert {key.partition("(")[0] for key in refused} == {"AttentionWindowed"}
    older = illegal(specs, 26, "0") - always - refused
    assert older == {"GlobalLpPool(bfloat16)->bfloat16"}


OPSETS = tuple(range(13, 27))
ALL = tuple(range(7, 27))


@pytest.fixture(scope="module")
def registry():
    return OpRegistry.load()


@pytest.mark.parametrize(
    "name, opset, newest",
    [("Acos", 13, 21), ("Acos", 22, 26), ("MatMul", 13, 26), ("ReduceSumSquare", 17, 17)],
)
def test_the_newest_opset_of_a_version(registry, name, opset, newest):
    assert newest_of_version(registry.get(name), opset, OPSETS) == newest


def test_a_lowering_of_several_operators_changes_with_each_of_them(registry):
    spec = registry.get("Mish")  # one operator from opset 18 on, three before
    assert version_of(spec, 17) != version_of(spec, 18)
    assert newest_of_version(spec, 18, OPSETS) == 21


def test_dtypes_that_are_written_in_another_way_count(registry):
    spec = registry.get("IsInf")  # of bfloat16 behind a Cast, which takes it from opset 13 on
    assert version_of(spec, 12) != version_of(spec, 13)


def test_every_operator_has_a_version_at_each_opset_from_its_first(registry):
    for spec in registry.specs():
        assert all(any(version_of(spec, opset)) for opset in OPSETS if opset >= spec.since)


@pytest.mark.slow
def test_what_is_legal_is_so_at_every_opset_of_a_version(registry):
    for spec in registry.specs():
        for opset in ALL:
            if opset >= spec.since:
                newest = newest_of_version(spec, opset, ALL)
                assert illegal([spec], opset) == illegal([spec], newest), (spec.name, opset)


@pytest.mark.parametrize(
    "signature, opset",
    [("Relu(int16)->int16", 11), ("Pad(bool)->bool", 12)],
)
def test_what_the_operators_of_older_forms_do_not_take_is_refused(registry, signature, opset):
    """Relu of integers is Max before opset 14, and only the wrapping Pad is none before 19."""
    spec = registry.get(signature.partition("(")[0])
    config = admitted_by_schema(GenerateConfig(opset=opset), [spec])
    assert signature in config.refused


NAMES = ("Acos", "Mish", "LinearNorm")


@pytest.fixture(scope="module")
def specs():
    return [spec for spec in OpRegistry.load().specs() if spec.name in NAMES]


def judged(specs, judgements):
    return [illegal([s], o, r, judgements) for s in specs for o in (13, 26) for r in (None, "1.14")]


def test_judgements_are_those_that_were_made(specs, tmp_path):
    first = Judgements.kept_in(tmp_path)
    assert judged(specs, first) == judged(specs, Judgements())
    first.save()
    (path,) = tmp_path.glob("judgements-*.json")
    text = path.read_text()
    later = Judgements.kept_in(tmp_path)
    assert judged(specs, later) == judged(specs, first)
    assert [version_of(s, 17, later) for s in specs] == [version_of(s, 17) for s in specs]
    assert path.read_text() == text


def test_a_kept_judgement_is_not_made_again(specs, tmp_path):
    first = Judgements(tmp_path / "kept.json")
    first.answer(specs[0], "13", "[01]+", lambda: "10")
    first.answer(specs[0], "written", ".+", lambda: "A B")
    first.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.answer(specs[0], "13", "[01]+", lambda: pytest.fail("asked")) == "10"
    assert later.answer(specs[0], "written", ".+", lambda: pytest.fail("asked")) == "A B"
    assert later.answer(specs[0], "14", "[01]+", lambda: "11") == "11"


def test_processes_that_work_side_by_side_keep_the_judgements_of_both(specs, tmp_path):
    one, other = Judgements(tmp_path / "kept.json"), Judgements(tmp_path / "kept.json")
    one.answer(specs[0], "13", "[01]+", lambda: "1")
    one.save()
    other.answer(specs[0], "14", "[01]+", lambda: "0")
    one.answer(specs[0], "written", ".+", lambda: "A")
    other.save()
    one.save()
    later = Judgements(tmp_path / "kept.json")
    assert later.answer(specs[0], "13", "[01]+", lambda: pytest.fail("asked")) == "1"
    assert later.answer(specs[0], "14", "[01]+", lambda: pytest.fail("asked")) == "0"
    assert later.answer(specs[0], "written", ".+", lambda: pytest.fail("asked")) == "A"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Acos@13": 3}', "[" * 9999])
def test_a_damaged_file_counts_as_empty(specs, tmp_path, text):
    path = tmp_path / "kept.json"
    path.write_text(text)
    kept = Judgements(path)
    assert kept.answer(specs[0], "13", "[01]+", lambda: "1") == "1"
    kept.save()
    assert json.loads(path.read_text()) == {f"{specs[0].name}@13": "1"}


@pytest.mark.parametrize("digits", ["", "1", "111", "1x"])
def test_an_answer_of_another_form_is_asked_again(specs, tmp_path, digits):
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({f"{specs[0].name}@13": digits}))
    assert Judgements(path).answer(specs[0], "13", "[01]{2}", lambda: "10") == "10"


def test_operators_whose_sources_are_unknown_are_judged_each_time(tmp_path):
    @operator
    class Acos(Unary):
        """Has the name of another one."""

    kept = Judgements(tmp_path / "kept.json")
    assert kept.answer(Acos, "13", "[01]", lambda: "0") == "0"
    assert kept.answer(Acos, "13", "[01]", lambda: "1") == "1"
    kept.save()
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_costs_nothing_else(specs, tmp_path):
    (tmp_path / "file").write_text("")
    kept = Judgements(tmp_path / "file" / "kept.json")
    assert kept.answer(specs[0], "13", "[01]", lambda: "1") == "1"
    kept.save()
