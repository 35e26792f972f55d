"""Test support for stores of responses."""
