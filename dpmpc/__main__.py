"""`python -m dpmpc` is the `dpmpc` command."""

import sys

from dpmpc.app.cli.main import main

sys.exit(main())
