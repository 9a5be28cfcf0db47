"""The tensors that tests give to published models are those of Transformers' classes."""

import pytest

from tests.published_models.models import MODELS
from tests.published_models.tensors import tensor_shapes

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
IndicTrans = pytest.importorskip("tests.parity.hf_indictrans_model").IndicTrans

pytestmark = [pytest.mark.parity, pytest.mark.slow]


@pytest.mark.representatives("opus-mt-en-de", "mbart-large-50", "pegasus-xsum", "flan-t5-small")
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name.partition("/")[2])
def test_names_and_shapes(model):
    """Built without memory for values: the same but for what is tied or computed."""
    if model.format_name == "hf-indictrans":
        module_class, config = IndicTrans, model.config
    else:
        module_class, config = original(model)
    with torch.device("meta"):
        module = module_class(config)
    theirs = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    shapes = tensor_shapes(model.config)
    assert shapes.items() <= theirs.items()
    # The copies that are tied, and the tables that are computed.
    copies = ("embed_tokens.weight", "embed_positions.weight", "lm_head.weight", "shared.weight")
    assert all(name.endswith(copies) for name in theirs if name not in shapes)


def original(model):
    """The class of Transformers, and its settings."""
    settings = dict(model.config)
    (class_name,) = settings.pop("architectures")
    is_tied = settings.get("tie_word_embeddings", True)
    module_class = getattr(transformers, class_name)
    config = module_class.config_class(**settings)
    config.tie_word_embeddings = is_tied  # which Transformers 5 sets to True
    return module_class, config
