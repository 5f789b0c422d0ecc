"""Finding the rows of a batch on which the body raises."""
