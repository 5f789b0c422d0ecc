"""Where a batch's rows go: a topic, in one transaction; or a view's store."""
