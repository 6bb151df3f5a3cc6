"""`python -m dpmpc` is the `dpmpc` command."""

import sys

from dpmpc.cli.main import main

sys.exit(main())
