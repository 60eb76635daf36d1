"""Decides from what tests have shown what is generated next.

Probes learn which operators a compiler supports, restraints keep generation away from what fails
again and again, and guidance repeats the choices that produced something new.
"""
