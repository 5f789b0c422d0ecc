"""The configuration of the broker and of topics, under Kafka's own names."""
