"""The command line: ``python -m transformer_core COMMAND``, each command a file in commands/.

Results go to stdout, refusals to stderr as one sentence. The exit status is 0, 1 when a check fails, a fault is not
seen or a training breaks down, 2 when what was asked for cannot be, 130 after Ctrl-C.
"""

import os
import sys
from collections.abc import Sequence

from transformer_core.commands import COMMANDS
from transformer_core.commands.common import CLOSED, FAILED, REFUSED, STOPPED, Parser
from transformer_core.training import NonFinite


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a sign that the terminal lacks is printed as "?", and ends nothing
            stream.reconfigure(errors="replace")
    try:
        status = run(arguments)
        if sys.stdout is not None:  # closed from the start
            sys.stdout.flush()
        return status
    except NonFinite as error:
        return complain(error, FAILED)
    except ValueError as error:
        return complain(error, REFUSED)
    except KeyboardInterrupt:
        return complain("Stopped by Ctrl-C; nothing was saved.", STOPPED)
    except BrokenPipeError:  # whoever reads, for example head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python flushes once more and complains
        return CLOSED
    except OSError as error:  # a full disk, for example
        return complain(f"{error.filename or 'The output'} cannot be written: {error.strerror}.", FAILED)


def complain(error: object, status: int) -> int:
    if sys.stderr is not None:
        print(error, file=sys.stderr)
    return status


def run(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    status: int = options.command(options)
    return status


def parser() -> Parser:
    top = Parser(prog="python -m transformer_core", description="A hand-written Transformer, looked at from outside.")
    commands = top.add_subparsers(required=True, metavar=" | ".join(COMMANDS))
    for name, command in COMMANDS.items():
        one: Parser = commands.add_parser(name, help=command.HELP, description=command.HELP)
        one.set_defaults(command=command.run)
        one.add_argument("--json", action="store_true", help="plain data instead of text")
        command.arguments(one)
    return top


if __name__ == "__main__":
    sys.exit(main())
