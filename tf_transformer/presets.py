"""The sizes and switches of Transformers known from the literature, by name."""

from typing import Any

_BASE_SIZES = dict(num_encoder_layers=6, num_decoder_layers=6, d_model=512, d_ff=2048, num_heads=8)
_BIG_SIZES = dict(num_encoder_layers=6, num_decoder_layers=6, d_model=1024, d_ff=4096, num_heads=16)
# The paper describes dropout on embeddings and sublayer outputs; its code also applies it to
# attention weights and to the inner activations of the feed-forward sublayers.
_DROPOUT_AS_WRITTEN = dict(attention_dropout_rate=0.0, feed_forward_dropout_rate=0.0)

PRESETS: dict[str, dict[str, Any]] = {
    # Wu et al., 2021, "Good for Misconceived Reasons", for corpora of the size of Multi30k; they
    # have no dropout on attention weights and inner activations either. They use post-norm;
    # pre-norm learned faster here.
    "tiny": dict(
        num_encoder_layers=4,
        num_decoder_layers=4,
        d_model=128,
        d_ff=256,
        num_heads=4,
        dropout_rate=0.3,
        attention_dropout_rate=0.0,
        feed_forward_dropout_rate=0.0,
        norm_position="pre",
    ),
    # Vaswani et al., 2017, table 3, with dropout where their code has it.
    "base": dict(_BASE_SIZES, dropout_rate=0.1),
    "big": dict(_BIG_SIZES, dropout_rate=0.3),
    # The same with dropout where their text has it.
    "paper_base": dict(_BASE_SIZES, dropout_rate=0.1, **_DROPOUT_AS_WRITTEN),
    "paper_big": dict(_BIG_SIZES, dropout_rate=0.3, **_DROPOUT_AS_WRITTEN),
    # Kasai et al., 2021, "Deep Encoder, Shallow Decoder": base widths, most layers in the encoder,
    # which runs once a sentence, and their dropout rate. Their program counts positions from 2 and
    # begins with the end id; here both are as in the paper. With depth-scaled initial weights, the
    # positions of a deep post-norm encoder do not become equal in training.
    "shallow": dict(
        _BASE_SIZES | dict(num_encoder_layers=12, num_decoder_layers=1),
        dropout_rate=0.2,
        depth_scaled_initialization=True,
        **_DROPOUT_AS_WRITTEN,
    ),
    # The sizes and switches of Bergamot's `student.tiny11`, after Kim et al., 2019, "From Research
    # to Production and Back", so that Marian can run the model (`convert --to marian`). Students
    # see a large teacher's translations of much text, and have no dropout. Initial weights as in
    # `shallow`, unlike Marian's.
    "student": dict(
        num_encoder_layers=6,
        num_decoder_layers=2,
        d_model=256,
        d_ff=1536,
        num_heads=8,
        dropout_rate=0.0,
        norm_position="post",
        positions="concatenated",
        activation="relu",
        decoder_autoregression="ssru",
        begin_embedding="zero",
        logits_bias=True,
        depth_scaled_initialization=True,
    ),
    # Harvard's Annotated Transformer, `make_model` with its defaults.
    "annotated": dict(
        _BASE_SIZES,
        dropout_rate=0.1,
        norm_position="pre",
        norm_type="sample_std",
        tied_embeddings="none",
        max_length=5000,
    ),
    # NiuTensor's sample program with its defaults. What differs: the program numbers positions from
    # 2 (padding's id + 1), which is `first_position=2`, and its norm has no epsilon.
    "niutensor": dict(
        num_encoder_layers=6,
        num_decoder_layers=6,
        d_model=512,
        d_ff=1024,
        num_heads=4,
        dropout_rate=0.3,
        attention_dropout_rate=0.1,
        feed_forward_dropout_rate=0.1,
        norm_position="pre",
        positions="concatenated",
        tied_embeddings="none",
        logits_bias=False,
        max_length=200,
    ),
}
