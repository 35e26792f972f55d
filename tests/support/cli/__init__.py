"""The command line and its servers."""
