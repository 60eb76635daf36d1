"""What `import nnfuzz` gives: the parts of the engine, as people hold them."""
