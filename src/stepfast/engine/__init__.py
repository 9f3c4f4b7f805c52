"""Between the rules and the store: grouped commits, starting runs, and waiting for their ends."""
