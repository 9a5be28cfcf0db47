"""The names of the formats on the command line, and what they are. This module imports nothing."""

IMPORTED = {
    "hf-marian": "folder of Transformers' MarianMTModel, such as OPUS-MT",
    "hf-m2m100": "folder of Transformers' M2M100ForConditionalGeneration, such as NLLB",
}
EXPORTED = {
    "ctranslate2": "folder for ctranslate2.Translator",
    "hf": "folder of Transformers' MarianMTModel or M2M100ForConditionalGeneration",
}
