"""The command, and the pages that people read."""
