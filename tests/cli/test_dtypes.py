"""--dtypes and --exclude-dtypes, from the command line to the values of generated graphs."""

from __future__ import annotations

from collections import defaultdict

import pytest

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.configuration import case_settings
from nnfuzz.cli.errors import listed
from nnfuzz.ir.dtypes import DType
from nnfuzz.operators.registry import OpRegistry
from nnfuzz.testcase.case import CaseConfig, TestCase
from nnfuzz.testcase.producer import Producer

CASES = 12


def chosen_dtypes(only, without):
    """CaseConfig.dtypes for `--dtypes` and `--exclude-dtypes`."""
    asked = {"dtypes": listed(only), "exclude_dtypes": listed(without)}
    return case_settings(asked).get("dtypes", {})


def values_by_operator(only, without):
    """Operator -> dtypes of its inputs and outputs in some generated graphs."""
    dtypes = chosen_dtypes(only, without)
    config = CaseConfig(nodes=12, motifs=2.0, exporter="direct", opset=23, dtypes=dtypes)
    producer = Producer(3, CaseConfig.from_json(as_json(config)))
    made = [producer.produce(index) for index in range(CASES)]
    cases = [case for case in made if isinstance(case, TestCase)]
    assert len(cases) == CASES
    found = defaultdict(set)
    for case in cases:
        types = case.graph.dtypes
        for node in case.graph.nodes:
            found[node.op] |= {types[n] for n in (*node.inputs, *node.outputs)}
    return found


def admits(spec, wanted):
    """Whether a variable of an operator admits none of the wanted dtypes: others are forced."""
    places = defaultdict(set)
    for binding, output in spec.signatures():
        for name, dtype in {**binding, "(output)": output}.items():
            places[name].add(dtype.value)
    return any(not dtypes & wanted for dtypes in places.values())


@pytest.mark.parametrize("only", [["float32"], ["float32,int64"], ["int8", "uint8"]])
def test_other_dtypes_occur_only_where_an_operator_forces_them(only):
    wanted = set(",".join(only).split(","))
    registry = OpRegistry.load([])
    found = values_by_operator(only, None)
    assert len(found) > 20
    for name, dtypes in found.items():
        assert dtypes & wanted or name in ("Shape", "Size"), name
        if dtypes - wanted:
            spec = registry.get(name)
            second = dtypes - wanted <= {"int64", "bool"}  # such as the indices of TopK, a mask
            assert second or admits(spec, wanted), (name, dtypes)


def test_excluded_dtypes_do_not_occur_at_all():
    found = values_by_operator(None, ["bool,int64", "float64"])
    assert len(found) > 20
    unwanted = {name: d for name, d in found.items() if d & {"bool", "float64"}}
    assert not unwanted


def test_the_setting_of_the_two_options():
    both = chosen_dtypes(["float32", "int8,bool"], ["bool"])
    assert set(both) == {dtype.value for dtype in DType} - {"float32", "int8"}
    assert both["bool"] is None and both["int64"] == 0.0
    assert chosen_dtypes(None, ["bool"]) == {"bool": None}
    assert chosen_dtypes(None, None) == {}
