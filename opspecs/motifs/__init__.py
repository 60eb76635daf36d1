"""Built-in motifs: sub-graphs that optimisers look for, one family per file."""
