"""One suite for every store: what the engine may rely on."""
