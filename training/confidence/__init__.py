"""Training of confidences: which words of a model's translations of a corpus are right."""
