"""What becomes of a campaign's findings once its tests are over: reduced, keyed anew, merged, compared."""
