"""From what people ask to the settings of a campaign."""

from __future__ import annotations

from types import SimpleNamespace

import onnx
import pytest
from onnx import TensorProto

from nnfuzz.backend.outcome import Outcome, OutcomeKind, Stage
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.backend.target import Target
from nnfuzz.campaign.configuration import (
    _kept_away,
    _taken,
    case_settings,
    choose_opset,
    chosen_backends,
    chosen_domains,
    default_workers,
    exporter_names,
    make_config,
)
from nnfuzz.operators.draw import Sizes
from nnfuzz.records.config import ConfigError


def test_the_opset_suits_all_backends():
    registry = BackendRegistry.discover()
    ort, tvm = registry.spec("onnxruntime"), registry.spec("tvm")
    assert choose_opset(registry, (ort,), None, "torchscript") == 20
    assert choose_opset(registry, (ort,), None, "direct") == 26
    assert choose_opset(registry, (ort, tvm), None, "direct") == 18
    assert choose_opset(registry, (tvm,), 15, "torchscript") == 15
    with pytest.raises(ConfigError, match="up to 26, not 28"):
        choose_opset(registry, (ort,), 28, "direct")


def test_exporters_are_mixed_as_far_as_they_reach_the_opset():
    assert exporter_names() == exporter_names("mixed") == ("direct", "torchscript")
    assert exporter_names("dynamo,direct") == ("dynamo", "direct")
    assert exporter_names("mixed", 23) == ("direct",)
    assert exporter_names("torchscript", 23) == ("torchscript",)  # refused by name later on


def test_there_is_a_worker_for_each_core(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {*range(3)})
    assert default_workers() == 3


def test_settings_under_the_names_of_options_become_fields():
    asked = {"exporter": "mixed", "opset": 23, "dtypes": ("bool",), "nodes": 3}
    found = case_settings(asked)
    assert found["exporters"] == ("direct",) and "exporter" not in found
    assert found["dtypes"]["float32"] == 0 and "bool" not in found["dtypes"]
    assert found["nodes"] == 3
    assert case_settings({"large": "mixed"}) == {"large": 0.1}
    with pytest.raises(ConfigError, match="no size 'big': write small, mixed or large"):
        case_settings({"large": "big"})
    with pytest.raises(ConfigError, match="did you mean 'mutate'"):
        case_settings({"engine": "mutant"})


def test_a_campaign_has_defaults_for_what_nobody_asks():
    registry = BackendRegistry.discover()
    specs = chosen_backends(registry, ["onnxruntime"])
    config = make_config(registry, specs, [], (), {"seed": 5, "levels": ("O0",)})
    assert config.time_limit == 60.0 and config.pipelines == 0.0 and config.seed == 5
    usual = make_config(registry, specs, [], (), {})
    assert (usual.pipelines, usual.case.large, usual.case.forms) == (0.5, 0.1, 0.2)
    refused = make_config(registry, specs, [], (), {"invalid": True}).case
    assert refused.large == refused.forms == 0.0
    with pytest.raises(ConfigError, match="leave out edges"):
        make_config(registry, specs, [], (), {"invalid": True, "edges": True})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"quantize": 0.5, "operators": ("Conv",)}, "need QuantizeLinear"),
        ({"quantize": 0.5, "edges": True}, "leave out quantize"),
        ({"quantize": 0.5, "invalid": True}, "leave out quantize"),
        ({"forms": 0.5, "invalid": True}, "leave out forms"),
    ],
)
def test_what_cannot_be_quantised_is_one_line(given, message):
    registry = BackendRegistry.discover()
    specs = chosen_backends(registry, ["onnxruntime"])
    assert make_config(registry, specs, [], (), {}).case.quantize == 0.1
    assert make_config(registry, specs, [], (), {"edges": True}).case.quantize == 0.0
    with pytest.raises(ConfigError, match=message):
        make_config(registry, specs, [], (), given)


TAKEN = {"one": ("com.acme", "com.microsoft"), "two": ("com.microsoft",)}


def test_by_default_it_is_what_every_backend_takes():
    assert chosen_domains(TAKEN, {}) == ("com.microsoft",)
    assert chosen_domains({**TAKEN, "three": ()}, {}) == ()
    assert chosen_domains(TAKEN, {}, usual=False) == chosen_domains({}, {}) == ()
    assert chosen_domains(TAKEN, {"invalid": True}) == ()


def test_what_is_asked_for_decides():
    assert chosen_domains(TAKEN, {"domains": ("ai.onnx",)}) == ()
    assert chosen_domains({}, {"domains": ("com.acme",)}) == ("com.acme",)
    assert chosen_domains(TAKEN, {"operators": ("Add",)}) == ()
    named = {"operators": ("Add", "com.microsoft.Gelu")}
    assert chosen_domains(TAKEN, named) == ("com.microsoft",)


def test_a_backend_without_the_domain_is_named():
    with pytest.raises(ConfigError, match="two takes no operators of the domain"):
        chosen_domains(TAKEN, {"domains": ("com.acme",)})
    with pytest.raises(ConfigError, match="two takes no operators of the domain"):
        chosen_domains(TAKEN, {"operators": ("com.acme.Gelu",)})


def asked(oldest, newest, refused=(), ranks=()):
    """What a campaign asks of a compiler that takes some opsets, and refuses some kinds."""

    def run(model, inputs, levels):
        proto = onnx.load_model_from_string(model)
        kinds = {value.type.tensor_type.elem_type for value in proto.graph.input}
        taken = oldest <= proto.opset_import[0].version <= newest and kinds.isdisjoint(refused)
        kind = OutcomeKind.OK if taken else OutcomeKind.UNSUPPORTED
        return [Outcome(kind, Stage.IMPORT, Target("toy", pipeline="O0"))]

    backend = SimpleNamespace(default_levels=lambda: ("O0",), ranks=ranks)
    return SimpleNamespace(run=run, backend=backend, spec=SimpleNamespace(label="toy"))


def test_the_opsets_that_all_compilers_take_are_asked_for():
    notes: list[str] = []
    runners = [asked(9, 21), asked(1, 18), asked(1, 99)]
    assert _taken(runners, 26, notes.append) == (9, 18)
    assert notes == [f"toy takes models from opset {a} to {b}" for a, b in ((9, 21), (9, 18))]


def test_models_keep_away_from_kinds_and_ranks_that_some_compiler_refuses():
    runners = [asked(1, 99, {TensorProto.DOUBLE}), asked(1, 99, ranks=(1, 2))]
    notes = []
    found = _kept_away(runners, 21, {"dtypes": {"int4": None}}, notes.append)
    assert found == {
        "interface": ("input float64",),
        "dtypes": {"int4": None},
        "sizes": Sizes(ranks=(1, 2)),
    }
    assert notes == ["toy refuses input float64: models are made without"]
