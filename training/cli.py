"""The commands that train and judge: demo, train, evaluate, average.

TensorFlow is imported inside the commands, so that `--help` answers at once.
"""

import argparse
import json
import logging
import pathlib
import re
import shlex
import sys

from tf_transformer.command_options import (
    add_dtype,
    add_model_dir,
    add_search_options,
    add_target_language,
)
from tf_transformer.files import check_writable, replacing
from tf_transformer.presets import PRESETS
from tf_transformer.quiet import import_tensorflow
from tf_transformer.scores import append_score


def add_commands(commands: argparse._SubParsersAction) -> None:
    """Adds the parsers of this room's commands."""
    _add_demo(commands)
    _add_train(commands)
    _add_evaluate(commands)
    _add_average(commands)


def _add_demo(commands):
    parser = commands.add_parser(
        "demo",
        help="train, judge and export a small translator from built-in text",
        description="Makes an English-German corpus of dates, times, amounts and counts, trains a "
        "small model on it, reports its quality on unseen sentences, exports it and translates "
        "with the export. Needs no file and no network, and a few minutes on 2 CPU cores.",
    )
    parser.add_argument(
        "--task", default="translate", choices=("translate", "copy"),
        help="copy: learn to repeat ten symbols, as in the Annotated Transformer; writes nothing",
    )  # fmt: skip
    parser.add_argument(
        "--out", type=pathlib.Path, default=pathlib.Path("demo-out"), metavar="DIR",
        help="where everything is written (default: %(default)s)",
    )  # fmt: skip
    parser.set_defaults(run=_run_demo)


def _run_demo(options):
    if options.task == "copy":
        import_tensorflow()
        from training.copy_task import run_copy_task

        run_copy_task()
    else:
        from training.demo import run_demo

        run_demo(options.out)


_NO_SOURCE = "; without, a language model of the target is trained"


def _add_train(commands):
    parser = commands.add_parser(
        "train",
        help="train a model on parallel text, or go on training it",
        description="Trains a model. Files hold one sentence a line, plain, .gz or .zst; "
        "F.tsv:2 is column 2 of a TSV file. Ctrl-C saves and stops; the same command goes on.",
    )
    parser.add_argument("--source", metavar="F", help=f"source sentences{_NO_SOURCE}")
    corpus = parser.add_mutually_exclusive_group(required=True)
    corpus.add_argument("--target", metavar="F", help="target sentences")
    corpus.add_argument(
        "--prepared", nargs="+", metavar="DIR[=WEIGHT]",
        help="folders that `prepare` made, in place of --source and --target; the pairs of one "
        "with weight 3 are seen three times as often as those of one with weight 1",
    )  # fmt: skip
    parser.add_argument(
        "--data-service", metavar="ADDRESS",
        help="a tf.data service that reads the prepared folders, such as grpc://localhost:5050",
    )  # fmt: skip
    for side in ("source", "target"):
        parser.add_argument(
            f"--validation-{side}", required=side == "target", metavar="F",
            help=f"{side} sentences to judge by at each checkpoint",
        )  # fmt: skip
    add_model_dir(parser, "where the model is written")
    parser.add_argument(
        "--init-from", type=pathlib.Path, metavar="DIR",
        help="a model whose vocabulary and weights training starts from (fine-tuning)",
    )  # fmt: skip
    parser.add_argument("--preset", metavar="NAME", help=f"sizes: {', '.join(PRESETS)}")
    parser.add_argument("--steps", type=int, metavar="N", help="optimizer updates in all")
    parser.add_argument("--vocab-size", type=int, metavar="N", help="pieces of the vocabulary")
    parser.add_argument("--config", type=pathlib.Path, metavar="F", help="settings in YAML")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="single settings, such as optimization.warmup_steps=4000 or model.dropout_rate=0.1",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, metavar="N", help="of weights, dropout and data order")
    parser.add_argument(
        "--checkpoint-every", type=int, metavar="N", help="updates between two checkpoints"
    )
    parser.add_argument(
        "--deterministic", action="store_true",
        help="the same weights, bit for bit, whenever the same command is run; slower",
    )  # fmt: skip
    parser.add_argument(
        "--strategy", default="auto",
        choices=("auto", "one_device", "mirrored", "multi_worker"),
        help="auto: several machines if TF_CONFIG names them, else this one's devices",
    )  # fmt: skip
    parser.add_argument(
        "--devices", type=int, metavar="N",
        help="GPUs to train on (default: all); without GPUs, logical CPU devices (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--profile", metavar="FIRST:LAST",
        help="capture a profile of these steps for TensorBoard, as in 100:110",
    )  # fmt: skip
    parser.set_defaults(run=_run_train)


def _run_train(options):
    overrides = dict(parse_setting(setting) for setting in options.set)
    for name, value in (
        ("preset", options.preset),
        ("optimization.steps", options.steps),
        ("optimization.seed", options.seed),
        ("optimization.checkpoint_every", options.checkpoint_every),
        ("vocabulary.size", options.vocab_size),
    ):
        if value is not None:
            overrides[name] = value
    folders = _prepared_folders(options, overrides)
    config = _load_train_config(options, overrides, folders)
    profile = options.profile and _parse_profile(options.profile, config.optimization.steps)
    if options.devices is not None and options.devices < 1:
        raise ValueError(f"--devices {options.devices}: expected at least 1")
    import_tensorflow()
    from training.corpus import TextFile
    from training.plots import plot_training
    from training.prepared import PreparedText
    from training.trainer import train

    logging.basicConfig(format="%(message)s", stream=sys.stderr)
    logging.getLogger("training").setLevel(logging.INFO)
    result = train(
        config,
        source=options.source and TextFile.parse(options.source, default_column=1),
        target=options.target and TextFile.parse(options.target, default_column=2),
        prepared=folders and PreparedText(folders, config.data, options.data_service),
        validation_source=options.validation_source
        and TextFile.parse(options.validation_source, default_column=1),
        validation_target=TextFile.parse(options.validation_target, default_column=2),
        model_dir=options.model_dir,
        strategy=options.strategy,
        num_devices=options.devices,
        deterministic=options.deterministic,
        profile=profile,
        init_from=options.init_from,
    )
    if not result.is_chief:
        return 0 if result.stopped_by is None else 128 + result.stopped_by
    picture = options.model_dir / "training.png"
    plot_training(options.model_dir / "logs").savefig(picture)
    if result.stopped_by is not None:
        again = shlex.join(["tf-transformer", *sys.argv[1:]])
        done = f"Stopped and saved at step {result.step}" if result.step else "Stopped at step 0"
        print(f"{done}. To go on, run again:\n  {again}")
        return 128 + result.stopped_by
    if result.early_stop is not None:
        print(f"Stopped early at step {result.step}: {result.early_stop}.")
        print("To go on, raise validation.patience; the best checkpoints: average --best N.")
    print(f"Trained for {result.step} steps: {options.model_dir} (curves: {picture})")


def _parse_profile(text: str, steps: int) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]) <= steps:
        raise ValueError(
            f"--profile {text}: expected FIRST:LAST, two of the steps 1 to {steps}, as in 100:110"
        )
    return int(match[1]), int(match[2])


def _prepared_folders(options, overrides):
    if not options.prepared:
        if options.data_service:
            raise ValueError("--data-service reads prepared folders; give them with --prepared")
        return None
    if options.source is not None:
        raise ValueError("--prepared takes the place of --source")
    for name in overrides:
        if name.startswith("vocabulary.") and not name.endswith("_vectors"):
            raise ValueError(
                f"{name}: a prepared folder brings its vocabulary; set it in `prepare`"
            )
    from training.prepared_folder import PreparedFolder

    return [PreparedFolder.parse(name) for name in options.prepared]


def _load_train_config(options, overrides, folders):
    """Without a source, what is trained is a language model, or what the first model is."""
    from training.prepared_folder import read_description
    from training.settings import load_config, read_settings

    if options.init_from is not None:
        import_tensorflow()
        from training.fine_tuning import config_like
        from training.run_directory import has_begun_from

        # Once it has begun, the first model may have changed or be gone.
        has_begun = has_begun_from(options.model_dir, options.init_from)
        model_dir = options.model_dir if has_begun else options.init_from
        return config_like(model_dir, read_settings(options.config, overrides))

    if folders:
        has_source = read_description(folders[0].path)["tokenizers"][0] is not None
    else:
        has_source = options.source is not None
    if has_source:
        return load_config(options.config, overrides)
    try:
        return load_config(options.config, {"model.decoder_only": True} | overrides)
    except ValueError as error:
        raise ValueError(f"{error} (without --source, a language model is trained)") from error


def parse_setting(setting: str) -> tuple[str, object]:
    """A dotted name and its value, as `--set` has them."""
    name, equals, value = setting.partition("=")
    if not equals:
        raise ValueError(f"--set {setting}: expected NAME=VALUE")
    from training.settings import read_yaml

    return name, read_yaml(value, f"--set {setting}")


def _add_evaluate(commands):
    parser = commands.add_parser(
        "evaluate",
        help="BLEU, chrF, exact matches and perplexity on a test set",
        description="Translates the source and compares with the reference, on plain text. Of a "
        "language model, which has no source, reports the reference's perplexity. The scores are "
        "added to DIR/scores.jsonl, with what they were computed from.",
    )
    add_model_dir(parser, "the model")
    parser.add_argument("--source", metavar="F", help="sentences to translate")
    parser.add_argument("--reference", required=True, metavar="F", help="their translations")
    add_target_language(parser)
    add_search_options(parser)
    add_dtype(parser)
    parser.add_argument(
        "--tokenize", default="13a", choices=("13a", "intl", "zh", "char", "none"),
        help="how BLEU cuts words; zh for Chinese (default: %(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--compare", nargs="+", action="extend", default=[], metavar="HYPOTHESES",
        help="other systems' translations of the source: says whether the difference is more than "
        "chance, by paired bootstrap and approximate randomization",
    )  # fmt: skip
    parser.add_argument("--output", type=pathlib.Path, metavar="F", help="write the translations")
    parser.add_argument("--json", type=pathlib.Path, metavar="F", help="write the scores as JSON")
    parser.set_defaults(run=_run_evaluate)


def _run_evaluate(options):
    for name in ("output", "compare", "target_language"):
        if options.source is None and getattr(options, name):
            option = name.replace("_", "-")
            raise ValueError(f"--{option} takes translations, which need a --source")
    for output in (options.output, options.json):
        if output:
            check_writable(output)
    import_tensorflow()
    from training.corpus import TextFile
    from training.evaluation import evaluate, evaluate_language_model

    if options.source is None:
        reference = TextFile.parse(options.reference, default_column=2)
        scores = evaluate_language_model(options.model_dir, reference, options.dtype)
        print(f"perplexity  {scores['perplexity']:6.2f}")
        _store_scores(options, scores)
        return
    evaluation, translations = evaluate(
        options.model_dir,
        source=TextFile.parse(options.source, default_column=1),
        reference=TextFile.parse(options.reference, default_column=2),
        beam_size=options.beam_size,
        length_penalty=options.length_penalty,
        bleu_tokenizer=options.tokenize,
        dtype=options.dtype,
        systems=[TextFile.parse(name, default_column=2) for name in options.compare],
        target_language=options.target_language,
    )
    print(evaluation)
    if options.output:
        with replacing(options.output) as path:
            path.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    _store_scores(options, evaluation.as_dict())


def _store_scores(options, scores):
    """A model directory that is not ours to write in can still be judged."""
    if options.json:
        with replacing(options.json) as path:
            path.write_text(json.dumps(scores, indent=2) + "\n", encoding="utf-8")
    try:
        append_score(options.model_dir, scores)
    except OSError as error:
        print(f"tf-transformer: the scores are not stored: {error}", file=sys.stderr)


def _add_average(commands):
    parser = commands.add_parser(
        "average",
        help="make the mean of the last or best checkpoints the model's weights",
        description="The mean of the last or the best N checkpoints' weights becomes the model's "
        "weights. The checkpoints stay as they are.",
    )
    add_model_dir(parser, "the model")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--last", type=int, metavar="N", help="the last N checkpoints")
    which.add_argument(
        "--best", type=int, metavar="N",
        help="the best N that are still there, by BLEU or by what validation.best_by says",
    )  # fmt: skip
    parser.set_defaults(run=_run_average)


def _run_average(options):
    import_tensorflow()
    from tf_transformer.model_dir import make_model, read_config, write_weights
    from training.best_checkpoints import best_checkpoint_paths
    from training.checkpoints import average_checkpoints, average_paths, step_of

    model = make_model(read_config(options.model_dir))
    if options.best is not None:
        paths = best_checkpoint_paths(options.model_dir, options.best)
        steps = average_paths(sorted(paths, key=step_of), model)
    else:
        steps = average_checkpoints(options.model_dir, options.last, model)
    write_weights(options.model_dir, model)
    print(f"The weights are now the mean of those at steps {', '.join(map(str, steps))}.")
