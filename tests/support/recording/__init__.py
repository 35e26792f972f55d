"""Test support for recordings: libraries, comparison, secrets and the plugin."""
