"""Text and token ids: tokenizer, vocabulary, special ids, language tags."""
