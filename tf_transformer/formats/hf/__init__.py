"""Folders of Hugging Face's Transformers: Marian, M2M100, NLLB and T5."""
