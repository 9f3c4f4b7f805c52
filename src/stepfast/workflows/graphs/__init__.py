"""Graphs: workflows put together in Python from typed stages."""
