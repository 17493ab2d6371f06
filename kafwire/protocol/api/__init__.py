"""The messages of Kafka's APIs: a file for each."""
