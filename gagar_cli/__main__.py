"""`python -m gagar_cli` is `gagar`."""

from gagar_cli.cli import main

if __name__ == "__main__":
    main()
