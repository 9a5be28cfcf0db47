"""Greedy search with and without the drafts of a model's heads.

    python -m benchmarks.drafts --model-dir M --source F [--sentences 500] [--dtype int8] [--xla]
        [--rows 1 2 4 8 16] [--rounds 5]

Prints the tokens a step of single sentences. Then, in Markdown, for 1 to 16 sentences at a time,
the milliseconds of both searches, one thread, in turn; the median of the ratios; the ratio times
the tokens a step, which is about the cost of a step relative to one without drafts; and how many
outputs are equal. The model is one of `train --draft-heads`.
"""

import argparse
import os
import pathlib
import statistics
import time

ROWS = (1, 2, 4, 8, 16)


def find(search, chunks):
    """Returns the outputs of all chunks as tuples of ids, and the seconds of each chunk."""
    import tensorflow as tf

    outputs, seconds = [], []
    run, num_best = search._graph(False), tf.constant(1)
    for chunk in chunks:
        begin = time.perf_counter()
        found = run(chunk, num_best)
        ids, lengths = found.ids.numpy()[:, 0], found.lengths.numpy()[:, 0]
        seconds.append(time.perf_counter() - begin)
        outputs += [tuple(row[:length]) for row, length in zip(ids, lengths, strict=True)]
    return outputs, seconds


def in_chunks(ids, rows):
    """Returns the sentences in chunks, as a search takes them."""
    from tf_transformer.text.framing import end_and_pad

    starts = range(0, int(ids.nrows()) - rows + 1, rows)
    return [end_and_pad(ids[start : start + rows]) for start in starts]


def make_searches(model, shapes, chunk):
    """Returns searches with and without drafts for the chunks that are like this one."""
    from tf_transformer.decoding.compiled import compiled_search
    from tf_transformer.decoding.drafts import draft_search
    from tf_transformer.decoding.translation_search import TranslationSearch

    most, has_heads = draft_search.MOST_ROWS, compiled_search.has_draft_heads
    draft_search.MOST_ROWS = len(chunk)
    with_drafts = TranslationSearch(model, beam_size=1, compiled_shapes=shapes)
    find(with_drafts, [chunk])
    draft_search.MOST_ROWS, compiled_search.has_draft_heads = 0, lambda model: False
    without = TranslationSearch(model, beam_size=1, compiled_shapes=shapes)
    find(without, [chunk])
    draft_search.MOST_ROWS, compiled_search.has_draft_heads = most, has_heads
    return with_drafts, without


def count_steps(model, chunks):
    """Returns the number of steps of single sentences, and of their tokens with the end."""
    import tensorflow as tf

    from tf_transformer.decoding.drafts.draft_decoder import DraftDecoder
    from tf_transformer.decoding.translation_search import TranslationSearch

    steps = 0
    verify = DraftDecoder.verify

    def counted(*arguments):
        nonlocal steps
        steps += 1
        return verify(*arguments)

    DraftDecoder.verify = counted
    tf.config.run_functions_eagerly(True)
    outputs, _ = find(TranslationSearch(model, beam_size=1), chunks)
    tf.config.run_functions_eagerly(False)
    DraftDecoder.verify = verify
    return steps, sum(len(ids) + 1 for ids in outputs)


def main() -> None:
    """Measures and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model-dir", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--sentences", type=int, default=500)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS, help="sentences at a time")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--xla", action="store_true", help="compile the search of one sentence")
    options = parser.parse_args()
    sizes = (1,) if options.xla else options.rows
    if options.sentences < max(sizes):
        parser.error(f"--sentences: fewer than the {max(sizes)} rows of a batch")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    from tf_transformer.decoding.drafts.draft_decoder import has_draft_heads
    from tf_transformer.storage.model_dir import load_for_decoding

    model, source_tokenizer, _ = load_for_decoding(options.model_dir, options.dtype)
    if not has_draft_heads(model):
        parser.error(f"{options.model_dir} has no draft heads, see `train --draft-heads`")
    lines = options.source.read_text(encoding="utf-8").splitlines()[: options.sentences]
    ids = source_tokenizer.tokenize(tf.constant(lines))
    longest = int(tf.reduce_max(ids.row_lengths())) + 1
    steps, tokens = count_steps(model, in_chunks(ids[:100], 1))
    print(f"{tokens / steps:.2f} tokens a step\n")
    print("| rows | with drafts, ms | without, ms | ratio | cost of a step | equal outputs |")
    print("|---|---|---|---|---|---|")
    for rows in sizes:
        chunks = in_chunks(ids, rows)
        shapes = [(1, longest)] if options.xla else ()
        searches = make_searches(model, shapes, chunks[0])
        rounds = []
        for _ in range(options.rounds):
            (found, seconds), (expected, other_seconds) = (find(s, chunks) for s in searches)
            rounds.append((statistics.median(seconds), statistics.median(other_seconds)))
        ratio = statistics.median(ours / other for ours, other in rounds)
        ours, other = (1000 * statistics.median(times) for times in zip(*rounds, strict=True))
        equal = sum(a == b for a, b in zip(found, expected, strict=True))
        print(
            f"| {rows} | {ours:.2f} | {other:.2f} | {ratio:.2f} | {ratio * tokens / steps:.1f} "
            f"| {equal} of {len(found)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
