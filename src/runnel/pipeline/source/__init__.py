"""From record batches to typed rows: what a query reads."""
