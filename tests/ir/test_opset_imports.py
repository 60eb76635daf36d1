"""Versions of further domains that go with an opset of ONNX."""

from __future__ import annotations

import pytest

from nnfuzz.ir.opset_imports import domain_version, imported_versions, operator_version

ML = "ai.onnx.ml"


@pytest.mark.parametrize(("opset", "version"), [(13, 2), (17, 3), (20, 4), (21, 5), (26, 5)])
def test_a_domain_of_onnx_has_the_version_of_the_same_release(opset, version):
    assert domain_version(ML, opset) == version
    assert domain_version("", opset) == opset
    assert domain_version("com.microsoft", opset) == 1


def test_an_operator_is_of_the_last_version_before_it_was_deprecated():
    assert operator_version("TreeEnsembleRegressor", ML, 20) == 4
    assert operator_version("TreeEnsembleRegressor", ML, 22) == 4
    assert operator_version("TreeEnsemble", ML, 22) == 5


def test_a_model_imports_a_version_in_which_none_of_its_operators_is_deprecated():
    used = [(ML, "Scaler"), (ML, "TreeEnsembleClassifier"), ("com.microsoft", "Gelu"), ("", "Add")]
    assert imported_versions(used, 22) == {"": 22, ML: 4, "com.microsoft": 1}
    assert imported_versions(used[:1], 22) == {"": 22, ML: 5}
