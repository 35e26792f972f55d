"""One package per dialect; these packages never import each other."""
