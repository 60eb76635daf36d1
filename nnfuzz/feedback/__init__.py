"""Decides from what tests have shown what is generated next.

Probes learn which operators a compiler supports, restraints keep generation away from what fails
again and again, and guidance does more of what has led to something new.
"""
