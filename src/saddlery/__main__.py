"""``python -m saddlery`` is the command line."""

import sys

from saddlery.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
