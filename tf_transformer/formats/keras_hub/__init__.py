"""Presets of KerasHub: folders that `TransformerSeq2SeqLM.from_preset` loads."""
