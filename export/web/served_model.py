"""What the served model offers, asked again from time to time."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from export.web.offers import Offers, find_offers
from tf_transformer.predictors.client.daemon_threads import start_in_thread
from tf_transformer.predictors.predictor import Predictor

# Seconds for which an answer, or that there is none, holds. A server may load another version of
# the model at any time, and everyone who opens the page asks.
_FRESH = 10.0
_FRESH_FAILURE = 2.0


class ServedModel:
    """Reads the signatures of the served model, with one request at a time.

    Args:
        predictor: what computes the model's tasks.
        search: see `find_offers`.
    """

    def __init__(self, predictor: Predictor, search: Mapping[str, Any]):
        self._predictor = predictor
        self._search = search
        self._lock = asyncio.Lock()
        self._found: Offers | Exception = LookupError("the server has not been asked")
        self._expires = 0.0

    def expire(self) -> None:
        """Makes the next `read` ask the server, after a request that may have failed for that."""
        if not isinstance(self._found, Exception):
            self._expires = 0.0

    async def read(self) -> Offers:
        """Returns what the model offers.

        Raises:
            InputError: the server does not have the model.
            OSError: as `Client.predict_batches`.
        """
        async with self._lock:
            if time.monotonic() >= self._expires:
                try:
                    self._found = await asyncio.wrap_future(start_in_thread(self._ask))
                except Exception as error:
                    self._found = error
                failed = isinstance(self._found, Exception)
                self._expires = time.monotonic() + (_FRESH_FAILURE if failed else _FRESH)
        if isinstance(self._found, Exception):
            raise self._found
        return self._found

    def _ask(self):
        return find_offers(self._predictor.refresh_signatures(), self._search)
