"""Keyed results kept in a database that anything can read: the stores that views are written to and served from.

Import its modules by their full names: they need pyarrow, which `import runnel` does not wait for.
"""
