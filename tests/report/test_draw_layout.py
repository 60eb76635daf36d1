"""Where boxes and edges of a drawing stand."""

import itertools
import random

import pytest

from nnfuzz.report.draw_layout import layout

SEEDS = range(12)


def random_edges(seed):
    dice = random.Random(seed)
    count = dice.randint(1, 25)
    pairs = [(dice.randrange(b), b) for b in range(1, count) for _ in range(dice.randint(0, 3))]
    widths = {key: dice.uniform(20, 200) for key in range(count)}
    return widths, [(a, b, dice.random()) for a, b in dict.fromkeys(pairs)]


@pytest.mark.parametrize("seed", SEEDS)
def test_edges_run_down_and_boxes_keep_their_distance(seed):
    widths, edges = random_edges(seed)
    placed = layout(widths, edges, gap=10)
    level = {key: i for i, layer in enumerate(placed.layers) for key in layer}
    assert set(widths) <= set(level)
    for (source, target, _), route in zip(edges, placed.routes):
        chain = [source, *route, target]
        assert [level[key] for key in chain] == list(range(level[source], level[target] + 1))
    for layer in placed.layers:
        for a, b in itertools.pairwise(layer):
            room = (widths.get(a, 0) + widths.get(b, 0)) / 2 + 10
            assert placed.x[b] - placed.x[a] >= room - 1e-6
    assert min(placed.x[k] - widths.get(k, 0) / 2 for k in placed.x) == pytest.approx(0)


def test_chains_are_straight_and_trees_do_not_cross():
    chain = layout(dict.fromkeys("abcd", 50.0), [("a", "b", 0.5), ("b", "c", 0.5), ("c", "d", 0.5)])
    assert len(set(chain.x.values())) == 1
    tree = layout(dict.fromkeys("vabcd", 9.0), [("v", "c", 0.5), ("a", "d", 0.5), ("b", "c", 0.5)])
    top, bottom = tree.layers
    ends = [bottom.index({"v": "c", "a": "d", "b": "c"}[key]) for key in top if key in "vab"]
    assert ends == sorted(ends)


def test_sources_stand_where_they_enter():
    placed = layout(dict.fromkeys("pqr", 9.0), [("p", "r", 0.9), ("q", "r", 0.1)])
    assert placed.x["q"] < placed.x["p"]
