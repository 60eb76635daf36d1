"""Built-in operator specs, one family per file. Each is whole in one place."""
