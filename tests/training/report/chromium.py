"""Where Chromium is."""

import shutil

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
