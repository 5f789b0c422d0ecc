"""The version of this package, by itself: every layer may ask for it."""

__version__ = "0.1.0.dev0"
