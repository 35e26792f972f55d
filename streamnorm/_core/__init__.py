"""Events, messages, ordering, losses and codec contracts, independent of any dialect."""
