"""`python -m jamma`: the command line."""

from jamma.cli import main

if __name__ == "__main__":
    main()
