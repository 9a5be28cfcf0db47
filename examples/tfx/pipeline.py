"""A TFX pipeline: CSV files -> Trainer -> BLEU -> Pusher, which TF Serving watches.

    pip install 'tf-transformer[tfx]'
    python pipeline.py --data data --output out --steps 8000 --min-bleu 30

`data/train` and `data/eval` hold CSV files with the columns `source` and `target`.
"""

import argparse
import os
import pathlib
import sys

from tfx import v1 as tfx

from training.settings import read_settings

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))  # for `validator` and `trainer`, which are no installed package

from validator import BleuValidator  # noqa: E402


def make_pipeline(
    data: str, output: str, *, steps: int, min_bleu: float, settings: dict
) -> tfx.dsl.Pipeline:
    """Returns the pipeline.

    Args:
        data: folder of `train` and `eval`.
        output: folder for everything that is written; `output/served` is for TF Serving.
        steps: optimizer updates.
        min_bleu: BLEU below which a model is not pushed.
        settings: settings of `training.train`, nested.
    """
    splits = [tfx.proto.Input.Split(name=name, pattern=f"{name}/*") for name in ("train", "eval")]
    examples = tfx.components.CsvExampleGen(
        input_base=data, input_config=tfx.proto.Input(splits=splits)
    )
    trainer = tfx.components.Trainer(
        module_file=str(HERE / "trainer.py"),
        examples=examples.outputs["examples"],
        train_args=tfx.proto.TrainArgs(num_steps=steps),
        eval_args=tfx.proto.EvalArgs(),
        custom_config={"settings": settings, "work_dir": os.path.join(output, "work")},
    )
    validator = BleuValidator(
        examples=examples.outputs["examples"],
        model=trainer.outputs["model"],
        min_bleu=min_bleu,
    )
    pusher = tfx.components.Pusher(
        model=trainer.outputs["model"],
        model_blessing=validator.outputs["blessing"],
        push_destination=tfx.proto.PushDestination(
            filesystem=tfx.proto.PushDestination.Filesystem(
                base_directory=os.path.join(output, "served")
            )
        ),
    )
    metadata = os.path.join(output, "metadata.sqlite")
    return tfx.dsl.Pipeline(
        pipeline_name="tf-transformer",
        pipeline_root=os.path.join(output, "pipeline"),
        components=[examples, trainer, validator, pusher],
        metadata_connection_config=(
            tfx.orchestration.metadata.sqlite_metadata_connection_config(metadata)
        ),
    )


def main() -> None:
    """Runs the pipeline on this machine."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", required=True, metavar="DIR")
    parser.add_argument("--output", required=True, metavar="DIR")
    parser.add_argument("--steps", type=int, default=8000, metavar="N")
    parser.add_argument("--min-bleu", type=float, default=30.0, metavar="X")
    parser.add_argument("--config", type=pathlib.Path, metavar="F", help="YAML file of settings")
    options = parser.parse_args()
    pipeline = make_pipeline(
        options.data,
        options.output,
        steps=options.steps,
        min_bleu=options.min_bleu,
        settings=read_settings(options.config),
    )
    tfx.orchestration.LocalDagRunner().run(pipeline)


if __name__ == "__main__":
    main()
