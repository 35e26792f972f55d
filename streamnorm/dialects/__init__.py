"""One room for each dialect; rooms never import each other."""
