"""Tool calls: their parts, arguments in fragments, and which part belongs to which call."""
