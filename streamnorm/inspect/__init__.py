"""A stream looked through: surveyed without I/O, and drawn as lines of text."""
