"""Errors that are expected of a client."""


class RequestError(ValueError):
    """A request that cannot be sent, or that the server refuses; the message says why.

    The command line prints it in one line and ends with exit status 2.
    """
