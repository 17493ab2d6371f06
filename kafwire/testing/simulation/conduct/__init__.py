"""What clients send, judged as it leaves them, by rules of Kafka's protocol that brokers do not, or cannot, enforce."""
