"""Expected errors: invalid input, not bugs."""


class InputError(ValueError):
    """An argument, a setting, a file or a server's answer is invalid.

    The message says what was expected and what was received. The command line prints it in one line
    and exits with status 2; any other `ValueError` is a bug and prints a traceback.
    """
