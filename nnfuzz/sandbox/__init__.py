"""Runs services in worker processes that may crash, hang, eat memory or print without end.

Nothing here knows of compilers. Reading order: `sandbox` (the campaign's end), `worker` (the other
end), `zygote` and `forkserver` (where workers come from), `channel` and `wire` (what travels).
"""
