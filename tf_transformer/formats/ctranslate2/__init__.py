"""Import of models of CTranslate2."""
