"""The component that decides whether a model is pushed."""

import os

from quality import bleu, write_verdict
from tfx import v1 as tfx
from trainer import read_pairs

InputArtifact = tfx.dsl.components.InputArtifact
OutputArtifact = tfx.dsl.components.OutputArtifact
Parameter = tfx.dsl.components.Parameter


@tfx.dsl.components.component
def BleuValidator(
    examples: InputArtifact[tfx.types.standard_artifacts.Examples],
    model: InputArtifact[tfx.types.standard_artifacts.Model],
    blessing: OutputArtifact[tfx.types.standard_artifacts.ModelBlessing],
    min_bleu: Parameter[float],
) -> None:
    """Blesses a model whose BLEU on the split `eval` is at least `min_bleu`."""
    folder = os.path.join(examples.uri, "Split-eval", "*")
    pairs = [(source.decode(), target.decode()) for source, target in read_pairs([folder])]
    sources, references = map(list, zip(*pairs, strict=True))
    score = bleu(os.path.join(model.uri, "Format-Serving"), sources, references)
    is_blessed = score >= min_bleu
    write_verdict(blessing.uri, is_blessed)
    blessing.set_int_custom_property("blessed", int(is_blessed))
    blessing.set_string_custom_property("bleu", f"{score:.2f}, at least {min_bleu:.2f} is needed")
