"""Skeletons: parts of models as people deploy them, from an embedding to a detection head."""
