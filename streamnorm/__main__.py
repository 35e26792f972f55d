"""Entry point of `python -m streamnorm`, which is the command `streamnorm`."""

import sys

from streamnorm.cli import main

if __name__ == "__main__":
    sys.exit(main())
