"""The log on disk, in Kafka's own file format, and what else a restart has to find again."""
