"""Topics, their options, and the placement of their partitions."""
