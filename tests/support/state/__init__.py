"""Stores of responses, and what they hold."""
