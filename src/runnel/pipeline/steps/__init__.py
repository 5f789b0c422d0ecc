"""What happens to a micro-batch, one step after the other: each a file, each a function of a batch."""
