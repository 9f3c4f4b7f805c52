"""Workflows written as data: templates in YAML or JSON, checked whole and compiled to plans."""
