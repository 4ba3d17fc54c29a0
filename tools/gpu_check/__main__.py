"""Run the check: ``python -m tools.gpu_check``."""

import sys

from tools.gpu_check._main import main

if __name__ == "__main__":
    sys.exit(main())
