"""`python -m holdall COMMAND`: the same as `holdall COMMAND`."""

import sys

from holdall.cli import main

sys.exit(main())
