"""A watch over compilers: new releases, the ledger on them, campaigns, a dashboard, for months."""
