"""``python -m emergence``."""

import sys

from emergence.cli import main

sys.exit(main())
