"""The names of the formats on the command line, and what they are. This module imports nothing."""

IMPORTED = {
    "hf-marian": "folder of Transformers' MarianMTModel, such as OPUS-MT",
    "hf-m2m100": "folder of Transformers' M2M100ForConditionalGeneration, such as NLLB",
    "hf-mbart": "folder of Transformers' MBartForConditionalGeneration, of mBART and mBART-50",
    "hf-bart": "folder of Transformers' BartForConditionalGeneration, such as bart-large-cnn",
    "hf-pegasus": "folder of Transformers' PegasusForConditionalGeneration",
    "hf-t5": "folder of Transformers' T5ForConditionalGeneration, such as Flan-T5 or MADLAD-400",
    "hf-indictrans": "folder of IndicTrans2's IndicTransForConditionalGeneration",
    "keras-hub": "preset of tf_transformer.hub",
    "marian": "Marian's model.npz or .bin, such as Firefox's and Bergamot's, or its folder",
    "ctranslate2": "folder of CTranslate2, or .argosmodel of Argos Translate",
    "fairseq": "checkpoint of fairseq, with its dictionaries beside it",
    "opennmt-py": "checkpoint of OpenNMT-py",
    "opennmt-tf": "folder of a run of OpenNMT-tf, or the .index file of a checkpoint",
}
EXPORTED = {
    "ctranslate2": "folder for ctranslate2.Translator",
    "hf": "folder of Transformers: Marian, M2M100, BART, mBART-50, Pegasus or T5",
    "keras-hub": "preset for tf_transformer.hub.TransformerSeq2SeqLM",
    "litert": "folder with model.tflite for LiteRT, on phones and embedded CPUs",
    "marian": "folder with model.npz for marian-decoder",
}
# The dtypes of the weights, of formats for which one can be chosen. The others have float32.
WEIGHT_DTYPES = {"litert": ("float32", "float16", "int8")}
