"""Programs for those who work on Runnel."""
