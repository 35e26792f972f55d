"""Test support for AG-UI."""
