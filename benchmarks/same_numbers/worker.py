"""Runs with the packages of one version, whose folder is the first argument.

    worker VERSION write FILES                    writes the files that both versions read
    worker VERSION dump FILES OUTPUT [DIR ...]    saves what this version computes

It uses only what both versions have: the public names of `tf_transformer` and the command line.
"""

import pathlib
import sys


def main() -> None:
    """Runs a task with the packages of one version."""
    version, task, *words = sys.argv[1:]
    import keras
    import tensorflow as tf

    import tf_transformer
    from benchmarks.same_numbers import commands, models, saved_models
    from benchmarks.same_numbers.numbers import Numbers

    if not pathlib.Path(tf_transformer.__file__).is_relative_to(version):
        raise RuntimeError(
            f"Expected the packages in {version}. Received: {tf_transformer.__file__}"
        )
    keras.utils.set_random_seed(1)
    tf.config.experimental.enable_op_determinism()
    files, *others = map(pathlib.Path, words)
    if task == "write":
        files.mkdir()
        models.write(files)
        commands.write(files)
        return
    output, *given = others
    output.mkdir()
    numbers = Numbers()
    models.dump(numbers, files)
    commands.dump_training(numbers, files, output)
    model_dirs = commands.earlier_models(files) | {str(path): path for path in given}
    for index, (name, model_dir) in enumerate(model_dirs.items()):
        directory = output / f"model-{index}"
        directory.mkdir()
        commands.dump_outputs(numbers, name, model_dir, files, directory)
        saved_models.dump(numbers, name, model_dir, directory)
    numbers.save(output)


if __name__ == "__main__":
    main()
