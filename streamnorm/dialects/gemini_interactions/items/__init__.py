"""The steps of an interaction, one module for each kind."""
