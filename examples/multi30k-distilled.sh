#!/bin/sh
# The recipe of the best single model of Multi30k in docs/results.md: two teachers, their translations of
# the training text, and a student that learns from them and from the original pairs.
#
#     sh multi30k-distilled.sh CORPUS OUTPUT [OPTION ...]
#
# CORPUS has train.en, train.de, val.en, val.de, test_2016_flickr.en and test_2016_flickr.de, of task 1
# of Multi30k (https://github.com/multi30k/dataset). OPTIONs are those of `train`, for all trainings.
# The same command goes on after an interruption.
set -eu
[ $# -ge 2 ] || { sed -n 's/^# *sh /usage: sh /p' "$0" >&2; exit 2; }
corpus=$1 output=$2
shift 2
settings=$(dirname "$0")/multi30k-en-de.yaml
search='--beam-size 5 --length-penalty 1.8'

# train NAME SOURCE TARGET OPTION ...: a model, whose weights are the mean of its last five checkpoints.
train() {
    model=$output/$1 source=$2 target=$3
    shift 3
    tf-transformer train --config "$settings" --model-dir "$model" \
        --source "$source" --target "$target" \
        --validation-source "$corpus/val.en" --validation-target "$corpus/val.de" "$@"
    tf-transformer average --model-dir "$model" --last 5
}

for seed in 1 2; do
    train "teacher-$seed" "$corpus/train.en" "$corpus/train.de" --seed "$seed" "$@"
done
tf-transformer distill --teacher "$output/teacher-1" "$output/teacher-2" --keep bleu $search \
    --source "$corpus/train.en" --target "$corpus/train.de" --output "$output/distilled"
train student "$output/distilled/train.source" "$output/distilled/train.target" --seed 11 \
    --init-from "$output/teacher-1" --set model.dropout_rate=0.1 \
    optimization.learning_rate_factor=1.5 optimization.warmup_steps=1000 "$@"
for set in val test_2016_flickr; do
    echo "$set:"
    tf-transformer evaluate --model-dir "$output/student" $search \
        --source "$corpus/$set.en" --reference "$corpus/$set.de"
done
