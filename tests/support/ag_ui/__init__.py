"""AG-UI."""
