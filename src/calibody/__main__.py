"""`python -m calibody`."""

from calibody.cli import main

if __name__ == "__main__":
    main()
