"""Models with one deliberate fault, each against a clause of the standard."""
