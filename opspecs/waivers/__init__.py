"""Waivers: where reference implementations are wrong on built-in operators, with the clause that
decides."""
