"""The rules of the engine: states, moves, decisions, retries and replay. No I/O, no clock, no randomness."""
