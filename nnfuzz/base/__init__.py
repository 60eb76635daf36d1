"""What every room may use: text and JSON of strangers, untrusted files, sets of indexes. Imports nothing of nnfuzz."""
