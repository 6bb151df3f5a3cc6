"""The release: how the servers agree on the batch, check it, and open one sum."""
