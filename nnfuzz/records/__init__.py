"""The records that rooms of a campaign hand on and write down: rows, findings, settings."""
