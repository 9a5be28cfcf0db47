"""Pictures of attention, beam search, formulas and training."""
