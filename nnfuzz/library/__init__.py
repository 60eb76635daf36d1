"""The public interface of `import nnfuzz`: the parts of the engine for users' programs."""
