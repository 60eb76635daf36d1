"""Runs models on compilers that may crash, hang, eat memory or print without end.

Reading order: `backend` (what an adapter implements), `registry` (which there are), `runner`
(submit a model, get an outcome per level), `service` (the runner's other end, inside of the
worker), `sandbox` (workers and limits), `zygote` (where workers are forked), `wire` (what crosses).
"""
