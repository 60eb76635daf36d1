"""From a failure to the smallest model that fails alike. Called: nnfuzz.library.finding.reduce."""
