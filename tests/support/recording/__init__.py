"""Recordings: libraries, comparison, secrets and the plugin."""
