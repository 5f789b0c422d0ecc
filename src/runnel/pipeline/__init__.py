"""Streams and views on Spark. The only home of pyspark; it reaches the log through the client, so any Kafka will do."""
