"""Campaigns on several machines: leases, segments, and one campaign out of many parts."""
