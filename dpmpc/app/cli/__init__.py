"""Subcommands of `dpmpc`, one module for each group of them; each adds its parsers and what they run.

Each module defines ``add_command`` or ``add_commands``. They print results on standard output and progress on standard
error; `dpmpc.app.cli.main` turns errors into exit statuses.
"""
