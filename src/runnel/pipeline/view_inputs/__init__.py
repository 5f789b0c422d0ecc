"""A view as an input of another output: its latest rows, or its changes one after the other, from its store."""
