"""Runs of agents in tests."""
