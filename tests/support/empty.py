"""A module without any workflow."""
