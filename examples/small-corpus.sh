#!/bin/sh
# The recipe of the best single model of Multi30k in benchmarks/notebook/results.md, for any small corpus: two
# teachers, their translations of the training text, a student that learns from them and from the
# original pairs, and a second student of all three.
#
#     sh small-corpus.sh CORPUS SOURCE TARGET OUTPUT [--quick] [--tokenize T] [OPTION ...]
#
# CORPUS has files of one sentence a line, named by language: for `en fr`, train.en and train.fr, val.en
# and val.fr, and any number of test sets, such as test_2016_flickr.en and test_2016_flickr.fr.
#
# --quick       one teacher and one student of fewer steps: about an hour on two cores for 30,000 pairs
# --tokenize T  sacreBLEU's tokenizer: none for a corpus that is tokenized already, zh for Chinese
# OPTION        those of `train`, for all trainings
#
# The same command goes on after an interruption.
set -eu
[ $# -ge 4 ] || { sed -n 's/^# *sh /usage: sh /p' "$0" >&2; exit 2; }
corpus=$1 from=$2 to=$3 output=$4
shift 4
case $output in -*) echo "OUTPUT: expected a folder, got $output" >&2; exit 2 ;; esac
quick= tokenize=
while :; do
    case ${1-} in
        --quick) quick=yes; shift ;;
        --tokenize)
            # Checked here, since it is used only after hours of training.
            case ${2-} in
                13a|intl|zh|char|none) tokenize="--tokenize $2"; shift 2 ;;
                *) echo "--tokenize '${2-}': expected 13a, intl, zh, char or none" >&2; exit 2 ;;
            esac ;;
        *) break ;;
    esac
done
for file in train.$from train.$to val.$from val.$to; do
    [ -f "$corpus/$file" ] || { echo "$corpus/$file: expected a file" >&2; exit 2; }
done
mkdir -p "$output"
settings=$(dirname "$0")/multi30k-en-de.yaml
search='--beam-size 5 --length-penalty 1.8'
log=$output/seconds
: >> "$log"

# A line of the log is a stage, its share of the work if it has ended, and its seconds. The shares are
# those of Multi30k.
record() {
    [ -z "${name-}" ] || grep -qs "^$name [1-9]" "$log" ||
        echo "$name $1 $(($(date +%s) - begin))" >> "$log"
}
trap 'record 0' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# stage NAME: says what begins, and how long all that is left takes at the pace so far.
stage() {
    record "${share-}"
    name=$1 begin=$(date +%s)
    share=$(echo " $stages" | sed "s/.* $name=\([0-9]*\).*/\1/")
    echo "$stages" | tr ' ' '\n' | awk -F '[= ]' -v name="$name" '
        FILENAME != "-" { spent += $3; done += $2; next }
        { whole += $2; count++ }
        $1 == name { number = count; share = $2 }
        END {
            printf "== stage %d of %d, %s: %d %% of the work", number, count, name, 100 * share / whole
            minutes = done ? int((whole - done) * spent / done / 60 + 0.5) : 0
            if (done < whole && done) printf "; about %d:%02d hours for all that is left", minutes / 60, minutes % 60
            print " =="
        }' "$log" -
}

# train NAME SOURCE TARGET OPTION ...: a model, whose weights are the mean of its last five checkpoints.
train() {
    stage "$1"
    model=$output/$1 source=$2 target=$3
    shift 3
    tf-transformer train --config "$settings" --model-dir "$model" \
        --source "$source" --target "$target" \
        --validation-source "$corpus/val.$from" --validation-target "$corpus/val.$to" "$@"
    tf-transformer average --model-dir "$model" --last 5
}

# distill NAME MODEL ...: the original pairs and the translations of an ensemble, in a folder.
distill() {
    stage "$1"
    text=$output/$1
    shift
    # shellcheck disable=SC2086
    tf-transformer distill --teacher "$@" --keep bleu $tokenize $search \
        --source "$corpus/train.$from" --target "$corpus/train.$to" --output "$text"
}

# student NAME FIRST OPTION ...: the model FIRST, trained on with the text of `distill`.
student() {
    new=$1 first=$output/$2
    shift 2
    train "$new" "$text/train.source" "$text/train.target" --init-from "$first" "$@"
}

less='model.dropout_rate=0.1 optimization.learning_rate_factor=1.5'
# shellcheck disable=SC2086
if [ "$quick" ]; then
    stages='teacher-1=1500 text-1=450 student-1=1200 evaluation=50'
    final=student-1
    fast='--set optimization.checkpoint_every=100'  # the mean is then that of the last 400 steps
    train teacher-1 "$corpus/train.$from" "$corpus/train.$to" --seed 1 \
        --steps 1500 $fast optimization.warmup_steps=1000 "$@"
    distill text-1 "$output/teacher-1"
    student student-1 teacher-1 --seed 11 --steps 1200 \
        $fast $less optimization.warmup_steps=300 "$@"
else
    stages='teacher-1=5000 teacher-2=5000 text-1=600 student-1=5000 text-2=1500 student-2=3500 evaluation=50'
    final=student-2
    for seed in 1 2; do
        train "teacher-$seed" "$corpus/train.$from" "$corpus/train.$to" --seed "$seed" "$@"
    done
    distill text-1 "$output/teacher-1" "$output/teacher-2"
    student student-1 teacher-1 --seed 11 --set $less optimization.warmup_steps=1000 "$@"
    distill text-2 "$output/teacher-1" "$output/teacher-2" "$output/student-1"
    student student-2 student-1 --seed 21 --steps 3500 \
        --set $less optimization.warmup_steps=1000 "$@"
fi

stage evaluation
for source in "$corpus"/*."$from"; do
    set=$(basename "$source" ".$from")
    [ "$set" != train ] && [ -f "$corpus/$set.$to" ] || continue
    echo "$set:"
    # shellcheck disable=SC2086
    tf-transformer evaluate --model-dir "$output/$final" $tokenize $search \
        --source "$source" --reference "$corpus/$set.$to"
done
