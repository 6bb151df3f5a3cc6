"""One module per table or figure of a paper; each has `main(arguments)` and runs as `python -m bench NAME`."""
