"""Set-up of a fresh machine: the virtual environment and the browser of the tests. Standard library only."""
