"""The long experiments behind docs/: each writes its own record and tables."""
