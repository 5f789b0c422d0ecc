"""The latest row of each key: what a table is to a body, plainly or change by change."""
