"""A live page of a running campaign: read-only, over HTTP."""
