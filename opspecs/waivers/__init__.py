"""Where reference implementations are wrong on built-in operators, and clauses that decide."""
