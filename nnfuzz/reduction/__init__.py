"""From a failure to the smallest model that fails alike."""
