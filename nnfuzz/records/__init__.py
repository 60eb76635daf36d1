"""What travels between the rooms of a campaign and is written down: rows, findings, settings, schedules."""
