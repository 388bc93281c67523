"""The command `accord`, for a process that is forked."""

import os
import sys

from accord.cli import main

sys.argv[0] = "accord"
sys.path[0] = os.getcwd()  # as `python -m accord` has it
main()
