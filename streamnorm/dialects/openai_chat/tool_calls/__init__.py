"""Tool calls: their fragments on the wire, their arguments, and their held starts."""
