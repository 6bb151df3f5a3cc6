"""How a report travels: made, sealed, kept until it is stored, and handed on to every server."""
