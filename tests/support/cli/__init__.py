"""Test support for the command line and its servers."""
