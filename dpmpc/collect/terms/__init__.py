"""What everybody agrees on beforehand, and what all servers sign at the end: anybody may read it, and check it."""
