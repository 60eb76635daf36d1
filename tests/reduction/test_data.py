"""Tensors get small, and numbers few, where a fault depends on elements, sizes or numbers."""

from __future__ import annotations

import pytest

from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.base.writing import as_json
from nnfuzz.experiment.compilers import examine
from nnfuzz.ir.graph import Graph
from nnfuzz.reduction.case import NotReduced, Problem, ReduceConfig, reduce_case
from nnfuzz.reduction.edit import Edit
from nnfuzz.reduction.passes import applied
from nnfuzz.reduction.servers import Servers
from nnfuzz.reduction.subject import Inapplicable, Subject
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.client import ProducerClient
from nnfuzz.testcase.producer import Producer
from tests.reduction.faults import FAULTS, PLUGIN, Fault, elements

CONFIG = CaseConfig(exporter="direct")
CHOSEN = [fault for fault in FAULTS if fault.rule not in ("long_input", "large", "row")]


@pytest.fixture(scope="module")
def producer():
    return Producer(0, CONFIG)


@pytest.fixture(scope="module")
def reduced(producer):
    """Reduces a planted fault, with further options of the backend."""
    registry = BackendRegistry.discover([PLUGIN])
    with (
        Servers(registry.spec("elements", {}), registry) as servers,
        ProducerClient(0, as_json(CONFIG), servers.service) as client,
    ):

        def reduce(fault: Fault, **options):
            plain, case = registry.spec("elements", fault.options), fault.case(producer)
            spec = registry.spec("elements", {**fault.options, **options})
            with servers.compilers.runner(plain, registry) as runner:
                (failure,) = examine(case, runner, client).failures
            problem = Problem(case, failure, spec, as_json(CONFIG))
            return reduce_case(problem, ReduceConfig(registry=registry, servers=servers))

        yield reduce


@pytest.mark.parametrize("fault", CHOSEN, ids=lambda f: f"{f.op}-{f.rule}-{len(f.operands[0][1])}")
def test_the_elements_and_sizes_that_matter_are_what_is_left(fault, reduced):
    done = reduced(fault)
    assert elements(done.case) <= 1.4 * fault.least
    numbers = {x for a in done.case.inputs.values() for x in a.ravel().tolist()}
    assert len(numbers) <= 2
    assert done.run <= 80 and done.confirmed == 3
    assert done.figures.elements[1] == elements(done.case)


def test_what_holds_in_no_fresh_process_gives_way_to_what_does(reduced):
    fault = next(fault for fault in FAULTS if (fault.op, fault.rule) == ("Abs", "magic"))
    done = reduced(fault, flaky=20)
    (array,) = done.case.inputs.values()
    assert done.confirmed == 3 and array.size > 20
    assert (array != 0).sum() == 1
    with pytest.raises(NotReduced):
        reduced(fault, flaky=10_000)


@pytest.fixture(scope="module")
def product(producer):
    """y = a * b with a of 4 x 6 and b of 6 elements."""
    fault = Fault("Mul", "magic", (("float32", (4, 6)), ("float32", (6,))), 2)
    case = fault.case(producer)
    return Subject(Graph.of(case.graph, producer.registry.get), case.inputs)


def test_a_window_is_around_the_failing_element_in_every_operand(product):
    made = applied(product, [Edit("shrinking", "*", [1, ["y", [3, 4]]])])
    assert made.params["x0"].tolist() == [[product.params["x0"][3, 4]]]
    assert made.params["x1"].tolist() == [product.params["x1"][4]]
    last = applied(product, [Edit("shrinking", "x0.1", [4, "tail"])])
    assert last.params["x0"].tolist() == product.params["x0"][:, 2:].tolist()


def test_all_but_the_operand_of_the_failing_element_become_zero(product):
    made = applied(product, [Edit("numbers", "x1", ["zeros", 0, 6, ["y", [3, 4]]])])
    expected = [0, 0, 0, 0, product.params["x1"][4], 0]
    assert made.params["x1"].tolist() == expected


@pytest.mark.parametrize("by, value", [("shrinking", [1]), ("numbers", ["zeros", 0, 6])])
def test_edits_about_an_element_that_is_gone_do_not_fit(by, value, product):
    target = "*" if by == "shrinking" else "x1"
    with pytest.raises(Inapplicable, match="z"):
        applied(product, [Edit(by, target, [*value, ["z", [0, 0]]])])
