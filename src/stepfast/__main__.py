"""`python -m stepfast` is the `stepfast` command."""

from __future__ import annotations

import sys

from stepfast.cli.main import main

sys.exit(main())
