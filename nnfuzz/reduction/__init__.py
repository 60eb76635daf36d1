"""From a failure to the smallest model that fails in the same way."""
