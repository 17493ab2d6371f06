"""The engine thread and what runs on it: transport, lanes, cluster, producer, scan."""
