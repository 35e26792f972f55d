"""Test support for agent runs."""
