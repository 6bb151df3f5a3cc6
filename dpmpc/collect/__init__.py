"""Run a real collection: clients upload for weeks, servers keep their shares, and make one release of them."""
