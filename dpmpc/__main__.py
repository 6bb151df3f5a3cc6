"""`python -m dpmpc` is the `dpmpc` command."""

import sys

from dpmpc.cli import main

sys.exit(main())
