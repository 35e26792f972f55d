"""The output items of one response, as they are read."""
