"""Run by `same_numbers` with the packages of one version, whose folder is the first argument.

    worker VERSION write FILES               writes what both versions read
    worker VERSION dump FILES OUTPUT [DIR ...]    writes down what this version computes

It may use nothing but what both versions have: the public names of `tf_transformer` and the
command line.
"""

import pathlib
import sys


def main() -> None:
    version, task, *words = sys.argv[1:]
    import keras
    import tensorflow as tf

    import tf_transformer
    from benchmarks.same_numbers import commands, models, saved_models
    from benchmarks.same_numbers.numbers import Numbers

    if not pathlib.Path(tf_transformer.__file__).is_relative_to(version):
        raise RuntimeError(f"Expected the packages in {version}, got {tf_transformer.__file__}")
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
    model_dirs = commands.trained_before(files) | {str(path): path for path in given}
    for index, (name, model_dir) in enumerate(model_dirs.items()):
        place = output / f"answers-{index}"
        place.mkdir()
        commands.dump_answers(numbers, name, model_dir, files, place)
        saved_models.dump(numbers, name, model_dir, place)
    numbers.save(output)


if __name__ == "__main__":
    main()
