"""The store in one SQLite file, which several processes may share."""
