"""Where operators are found, and what happens to duplicates and unknown names."""

from __future__ import annotations

from types import ModuleType

import pytest

from nnfuzz.operators.operator import OpSpec, operator
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.operators.waiver import reference


def named(name):
    return operator(type(name, (OpSpec,), {}))


def test_a_second_operator_of_a_name_is_refused():
    registry = OpRegistry([named("Twin")])
    with pytest.raises(ValueError, match="Twin is registered twice"):
        registry.add(named("Twin"))


def test_the_same_operator_may_be_met_again():
    spec = named("Once")
    registry = OpRegistry([spec, spec])
    assert list(registry) == ["Once"]


def test_an_unknown_name_gets_a_hint():
    registry = OpRegistry([named("Sigmoid"), named("Softmax")])
    with pytest.raises(KeyError, match="did you mean Sigmoid"):
        registry.get("sigmoid")
    with pytest.raises(KeyError, match="known: Sigmoid, Softmax"):
        registry.get("?")


def test_select_keeps_the_given_operators_only():
    registry = OpRegistry(map(named, "ABC"))
    assert list(registry.select("CA")) == ["C", "A"]
    with pytest.raises(KeyError, match="unknown operator 'Z'"):
        registry.select("AZ")


def test_a_module_contributes_marked_classes_only():
    module = ModuleType("plugin")
    module.Mine = named("Mine")
    module.Base = type("Base", (OpSpec,), {})
    module.number = 3
    registry = OpRegistry()
    registry.add_module(module)
    assert list(registry) == ["Mine"]


def test_a_subclass_is_not_marked_by_its_base():
    module = ModuleType("plugin")
    module.Mine = named("Mine")
    module.Variant = type("Variant", (module.Mine,), {})
    registry = OpRegistry()
    registry.add_module(module)
    assert list(registry) == ["Mine"]


def test_a_module_declares_waivers_by_operator():
    one, other = (reference(claim, "Tanh-13") for claim in ("is wrong", "is as wrong"))
    module = ModuleType("plugin")
    module.WAIVERS = {"Tanh": [one, other]}
    registry = OpRegistry.load([module])
    registry.add_module(module)
    assert registry.waivers.of("Tanh") == (one, other)
    assert registry.select(["Tanh"]).waivers.of("Tanh") == (one, other)
    assert registry.waivers.of("Erf") and not OpRegistry.load().waivers.of("Tanh")


def test_a_waiver_on_no_operator_is_refused():
    module = ModuleType("plugin")
    module.WAIVERS = {"Tahn": [reference("is wrong", "Tanh-13")]}
    with pytest.raises(KeyError, match="did you mean Tan, Tanh"):
        OpRegistry.load([module])


def test_built_in_operators_come_by_entry_point_and_plugins_after_them():
    module = ModuleType("plugin")
    module.Mine = named("MineAlone")
    registry = OpRegistry.load([module])
    assert "Add" in registry and list(registry)[-1] == "MineAlone"
    assert len(registry) == len(registry.specs()) == len(OpRegistry.load()) + 1
