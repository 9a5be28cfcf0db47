"""Importing this module keeps the root logger of a worker from printing to standard error.

It would otherwise print warnings of Apache Beam's import, such as of missing packages of clouds.
"""

import logging

logging.getLogger().addHandler(logging.NullHandler())
