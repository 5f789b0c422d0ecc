"""The composition root: what a person declares, and the parts that run it, built from settings."""
