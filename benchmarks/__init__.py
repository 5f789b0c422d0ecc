"""Benchmarks: programs that measure Runnel beside a peer and print tables of ratios."""
