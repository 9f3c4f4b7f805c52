"""Executors: registered implementations that steps of graphs and templates call by name."""
