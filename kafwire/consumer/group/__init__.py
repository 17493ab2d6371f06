"""Groups: who of a group's members reads what, and what members tell each other about it."""
