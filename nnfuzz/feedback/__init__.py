"""Decides from what tests have shown what is generated next.

Probes learn which operators a compiler supports, and restraints keep generation away from what
fails again and again.
"""
