"""The names of the formats on the command line, and what they are. This module imports nothing."""

IMPORTED = {
    "hf-marian": "folder of Transformers' MarianMTModel, such as OPUS-MT",
}
EXPORTED = {
    "ctranslate2": "folder for ctranslate2.Translator",
    "hf": "folder of Transformers' MarianMTModel",
}
