"""The built-in rewrites, by what they change."""
