"""Requests as values: what they hold, and their reduction to what a target can carry."""
