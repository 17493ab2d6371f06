"""The log on disk, in Kafka's file format, and the other state that survives a restart."""
