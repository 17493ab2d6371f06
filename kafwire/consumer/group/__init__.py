"""Consumer groups: memberships, assignors, partition ownership, and the metadata that members exchange."""
