"""What servers refuse: cases of rules and rows of tables."""
