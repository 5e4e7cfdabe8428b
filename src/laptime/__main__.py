"""`python -m laptime` is the command `laptime`."""

from laptime.cli.main import main

if __name__ == "__main__":
    main()
