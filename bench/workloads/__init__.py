"""What is measured: each module has a `measure` for the parent and a `__main__` part for the process it measures."""
