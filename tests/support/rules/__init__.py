"""Test support for request rules: cases and tables."""
