#!/bin/sh
# The recipe of the best single model of Multi30k in benchmarks/notebook/results.md: two teachers, their translations of
# the training text, a student that learns from them and from the original pairs, and a second student of
# all three.
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

# distill NAME MODEL ...: the original pairs and the translations of an ensemble, in a folder.
distill() {
    text=$output/$1
    shift
    tf-transformer distill --teacher "$@" --keep bleu $search \
        --source "$corpus/train.en" --target "$corpus/train.de" --output "$text"
}

for seed in 1 2; do
    train "teacher-$seed" "$corpus/train.en" "$corpus/train.de" --seed "$seed" "$@"
done

changes='model.dropout_rate=0.1 optimization.learning_rate_factor=1.5 optimization.warmup_steps=1000'
distill text-1 "$output/teacher-1" "$output/teacher-2"
train student-1 "$text/train.source" "$text/train.target" --init-from "$output/teacher-1" \
    --seed 11 --set $changes "$@"
distill text-2 "$output/teacher-1" "$output/teacher-2" "$output/student-1"
train student-2 "$text/train.source" "$text/train.target" --init-from "$output/student-1" \
    --seed 21 --steps 3500 --set $changes "$@"
for set in val test_2016_flickr; do
    echo "$set:"
    tf-transformer evaluate --model-dir "$output/student-2" $search \
        --source "$corpus/$set.en" --reference "$corpus/$set.de"
done
