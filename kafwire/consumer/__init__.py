"""The consumer: fetching, prefetched records, group membership, offsets, share groups."""
