"""Run the check: ``python -m sknet.gpu_check``."""

import sys

from sknet.gpu_check._main import main

if __name__ == "__main__":
    sys.exit(main())
