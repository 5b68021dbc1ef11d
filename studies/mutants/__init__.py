"""Mutation testing: put one fault at a time into the code and see whether a test fails."""
