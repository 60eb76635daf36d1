"""Runs services in worker processes that may crash, hang, eat memory or print without end.

Nothing here knows of compilers. Reading order: `sandbox` (the end of the campaign), `worker` (the
other end), `forkserver` and `zygote` (where workers come from), `channel` and `wire` (messages).
"""
