"""Execution providers beside the CPU; the wheel of ONNX Runtime has Azure, which takes no nodes."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import onnxruntime
import pytest
from nnfuzz.backends.onnxruntime_providers import add_providers, built_in, split_names
from onnx import parser

from nnfuzz.backend.contract import BackendUnavailable
from nnfuzz.backend.registry import BackendRegistry

REGISTRY = BackendRegistry.discover()
MODEL = parser.parse_model(
    """<ir_version: 9, opset_import: ["" : 17]>
    relu (float[3] x) => (float[3] y) { y = Relu (x) }"""
).SerializeToString()
INPUTS = {"x": np.array([-1, 0, 2], np.float32)}
AZURE = built_in("Azure")
needs_azure = pytest.mark.skipif(not AZURE, reason="this onnxruntime has no further provider")


def adapter(**options):
    return REGISTRY.get("onnxruntime")(**options)


def test_names_are_short_or_full_and_the_cpu_comes_last():
    assert split_names("OpenVINO+ ggml+cpu") == ["OpenVINO", "ggml"]
    assert split_names("") == split_names("CPUExecutionProvider") == []
    assert built_in("cpu") == built_in("CPUExecutionProvider") == "CPUExecutionProvider"
    assert built_in("nothing") == ""


@needs_azure
def test_a_model_runs_with_the_cpu_for_what_is_left():
    backend = adapter(providers="azure")
    assert backend.versions() == {"onnxruntime": onnxruntime.__version__}
    assert "providers=azure" in str(backend.target("O0"))
    session = backend._session(MODEL, "O3", ())
    assert session.get_providers() == [AZURE, "CPUExecutionProvider"]
    assert backend.build(MODEL, "O3")(INPUTS)["y"].tolist() == [0, 0, 2]


@needs_azure
def test_a_script_names_the_providers():
    names: dict = {}
    exec(compile(adapter(providers="azure").repro(), "repro", "exec"), names)
    (y,) = names["run"](MODEL, INPUTS, "O1").values()
    assert (
        y.tolist() == [0, 0, 2]
        and "add_providers(options, ['azure'])" in adapter(providers="azure").repro()
    )
    assert "add_providers" not in adapter().repro()


class Plugins:
    """An onnxruntime into which the library of a package brings a device, or none."""

    def __init__(self, devices):
        self.devices, self.brought = [SimpleNamespace(ep_name="CPUExecutionProvider")], devices

    def get_available_providers(self):
        return ["CPUExecutionProvider"]

    def get_ep_devices(self):
        return list(self.devices)

    def register_execution_provider_library(self, name, path):
        assert path == "/some/where.so"
        self.devices += [SimpleNamespace(ep_name=name) for _ in range(self.brought)]


@pytest.mark.parametrize("package", ["onnxruntime_ep_first", "onnxruntime_second"])
def test_a_plugin_is_found_by_its_package(package, monkeypatch):
    fake, given = Plugins(1), []
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    module = SimpleNamespace(get_library_path=lambda: "/some/where.so")
    monkeypatch.setitem(sys.modules, package, module)
    options = SimpleNamespace(add_provider_for_devices=lambda devices, _: given.append(devices))
    assert add_providers(options, [package.rpartition("_")[2], "cpu"]) == {}
    assert [[device.ep_name for device in devices] for devices in given] == [
        [package],
        ["CPUExecutionProvider"],
    ]


def test_what_cannot_be_used_is_one_line(monkeypatch):
    with pytest.raises(BackendUnavailable, match="no execution provider 'foo': this onnxruntime"):
        adapter(providers="foo").versions()
    with pytest.raises(BackendUnavailable, match="leave out provider"):
        adapter(providers="foo", provider="cuda").versions()
    monkeypatch.setitem(sys.modules, "onnxruntime", Plugins(0))
    module = SimpleNamespace(library_path=lambda: "/some/where.so")
    monkeypatch.setitem(sys.modules, "onnxruntime_third", module)
    with pytest.raises(BackendUnavailable, match="third supports no device of this machine"):
        adapter(providers="third").versions()
