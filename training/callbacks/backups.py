"""The callback that uploads checkpoints to object storage."""

import keras

from training.backup.backup import Backup


class UploadCheckpoints(keras.callbacks.Callback):
    """Starts an upload of the model directory after each checkpoint, before it is validated.

    In the list of callbacks, it comes after `SaveCheckpoints`. Scores of a validation are uploaded
    with the next checkpoint; a run that is restored without them validates again.

    Args:
        backup: the backup to write.

    Raises:
        InputError: another process is the writer of the backup.
    """

    def __init__(self, backup: Backup):
        super().__init__()
        self._backup = backup

    def on_test_begin(self, logs=None):
        self._backup.start_saving()
