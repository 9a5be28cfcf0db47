"""Makes folders as IndicTrans2 is published, with random weights.

The original's modules are those of M2M100, with two vocabularies, and norms of the embeddings.
"""

import json
import pathlib

import sentencepiece
import torch
import transformers

SIZES = dict(
    encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=48, decoder_ffn_dim=48,
)  # fmt: skip
WIDTH = 32
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
CODES = ["eng_Latn", "hin_Deva", "tam_Taml"]


class IndicTrans(transformers.M2M100ForConditionalGeneration):
    """IndicTrans2's model, with the names of its weights.

    Args:
        settings: the content of `config.json`.
    """

    def __init__(self, settings):
        width = settings["encoder_embed_dim"]
        sizes = {name: settings[name] for name in SIZES}
        super().__init__(
            transformers.M2M100Config(
                **sizes, d_model=width, vocab_size=settings["decoder_vocab_size"],
                activation_function=settings["activation_function"], max_position_embeddings=64,
                tie_word_embeddings=False, attn_implementation="eager",
            )
        )  # fmt: skip
        source = torch.nn.Embedding(settings["encoder_vocab_size"], width)
        self.model.encoder.embed_tokens.weight = source.weight
        if settings["share_decoder_input_output_embed"]:
            self.lm_head.weight = self.model.decoder.embed_tokens.weight
        if settings["layernorm_embedding"]:
            for stack in (self.model.encoder, self.model.decoder):
                stack.layernorm_embedding = torch.nn.LayerNorm(width)
                stack.layers[0].register_forward_pre_hook(_normalize(stack.layernorm_embedding))


def _normalize(norm):
    return lambda layer, inputs: (norm(inputs[0]), *inputs[1:])


class Side:
    """The tokenizer of one side.

    Attributes:
        ids: the id of each name in its dictionary.
    """

    def __init__(self, folder: pathlib.Path, side: str):
        self.ids = json.loads((folder / f"dict.{side}.json").read_text())
        self._pieces = sentencepiece.SentencePieceProcessor(
            model_file=str(folder / f"model.{side}")
        ).EncodeAsPieces

    def __call__(self, text: str, *codes: str) -> list[int]:
        """Returns the ids of a text, after those of languages, with the end."""
        names = [*codes, *self._pieces(text), "</s>"]
        return [self.ids.get(name, self.ids["<unk>"]) for name in names]


def write_folder(folder: pathlib.Path, lines: list[list[str]], **changes):
    """Writes a folder with random weights, biases and gains too.

    Args:
        folder: the folder to create.
        lines: text that the SentencePiece models of source and target are trained on.
        **changes: of the settings in `config.json`.

    Returns:
        The `IndicTrans`, and the `Side` of source and target.
    """
    folder.mkdir()
    names = {
        "SRC": [*SPECIAL, *CODES, *_write_sentencepiece(folder / "model.SRC", lines[0], 150)[:-3]],
        "TGT": [*SPECIAL, *_write_sentencepiece(folder / "model.TGT", lines[1], 140), "of others"],
    }
    for side, found in names.items():
        content = json.dumps({name: token_id for token_id, name in enumerate(found)})
        (folder / f"dict.{side}.json").write_text(content)
    settings = SIZES | {
        "model_type": "IndicTrans", "architectures": ["IndicTransForConditionalGeneration"],
        "encoder_vocab_size": len(names["SRC"]), "decoder_vocab_size": len(names["TGT"]) + 3,
        "encoder_embed_dim": WIDTH, "decoder_embed_dim": WIDTH, "max_source_positions": 64,
        "max_target_positions": 64, "activation_function": "gelu", "layernorm_embedding": True,
        "encoder_normalize_before": True, "decoder_normalize_before": True,
        "share_decoder_input_output_embed": True, "scale_embedding": True,
    } | changes  # fmt: skip
    (folder / "config.json").write_text(json.dumps(settings))
    torch.manual_seed(1)
    module = IndicTrans(settings).eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "norm" in name and name.endswith("weight"):
                parameter.uniform_(0.5, 1.5)
            else:
                parameter.normal_(0, 0.3)
    weights = {
        name: value for name, value in module.state_dict().items() if name != "model.shared.weight"
    }
    torch.save(weights, folder / "pytorch_model.bin")
    return module, Side(folder, "SRC"), Side(folder, "TGT")


def _write_sentencepiece(path: pathlib.Path, lines: list[str], size: int) -> list[str]:
    """Trains a SentencePiece model, and returns its pieces from id 3 on."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(path), vocab_size=size, model_type="bpe",
        character_coverage=1.0, minloglevel=2,
    )  # fmt: skip
    path.with_name(f"{path.name}.vocab").unlink()
    path.with_name(f"{path.name}.model").rename(path)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [processor.id_to_piece(token_id) for token_id in range(3, processor.vocab_size())]
