"""The ledger: bugs with their models, scripts, states and releases, in a folder for git."""
