"""The log behind a socket: Kafka's wire protocol, topics, consumer groups."""
