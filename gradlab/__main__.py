"""Entry point of ``python -m gradlab``."""

from gradlab.cli import main

main()
