"""Folders of Hugging Face's Transformers: Marian, M2M100, NLLB, BART, mBART, Pegasus and T5."""
