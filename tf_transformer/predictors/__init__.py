"""Three ways to run the tasks of a trained model: its directory, a SavedModel, a server."""

# They answer alike because each runs `tasks.table` as `tracing.trace` traces it, and is asked by
# `answers.answer`, which fills in options; `tests/export/test_same_bytes.py` checks it.
