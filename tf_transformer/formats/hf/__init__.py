"""Folders of Hugging Face's Transformers: Marian, M2M100, NLLB, BART, mBART-50, Pegasus and T5."""
