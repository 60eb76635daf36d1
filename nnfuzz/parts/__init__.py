"""Parts of one campaign on several machines: leases, what they exchange, and how they become one again."""
