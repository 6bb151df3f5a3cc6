"""The server process: sockets, limits, what is answered to whom."""
