"""The plugin's files are imported by the processes that it is installed for, never here."""

collect_ignore = ["flock"]
