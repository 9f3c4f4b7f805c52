"""Places for large values that are no database."""
