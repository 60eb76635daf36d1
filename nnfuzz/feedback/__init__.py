"""Decides from the results of tests which operators generation uses next.

Probes learn which operators a compiler supports, and restraints keep generation away from operators
that fail again and again.
"""
