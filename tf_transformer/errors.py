"""Errors that are expected: faults of input, not of the program."""


class InputError(ValueError):
    """Something that was given cannot be used: an argument, a setting, a file, an answer.

    Its message says what was expected and what came. The command line prints it in one line and
    ends with exit status 2; any other `ValueError` is a fault of the program, with a traceback.
    """
