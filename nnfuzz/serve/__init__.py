"""A campaign as a page that lives: read-only, over HTTP, for people who watch one that runs."""
