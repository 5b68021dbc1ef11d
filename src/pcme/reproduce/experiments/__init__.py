"""The experiments: one table or figure of the paper per file."""
