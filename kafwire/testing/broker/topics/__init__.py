"""Topics, their options, and where their partitions lie."""
