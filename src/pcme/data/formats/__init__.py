"""Dataset layouts on disk; one file per layout."""
