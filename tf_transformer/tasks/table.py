"""The table of all tasks, from which signatures and what reads them derive; no TensorFlow."""

from tf_transformer.tasks.adapted import ADAPTED
from tf_transformer.tasks.align import ALIGN, WORD_LINKS
from tf_transformer.tasks.complete import COMPLETE, CONTINUATION
from tf_transformer.tasks.confidence import CONFIDENCE
from tf_transformer.tasks.document import TRANSLATE_DOCUMENT
from tf_transformer.tasks.language import LANGUAGE
from tf_transformer.tasks.markup import TRANSLATE_MARKUP, TRANSLATE_MARKUP_WITH_TERMS
from tf_transformer.tasks.nbest import NBEST
from tf_transformer.tasks.sample import SAMPLE, SAMPLE_EPSILON
from tf_transformer.tasks.score import SCORE_PAIR
from tf_transformer.tasks.task import Task
from tf_transformer.tasks.terms import TRANSLATE_DOCUMENT_WITH_TERMS, TRANSLATE_WITH_TERMS
from tf_transformer.tasks.tokens import TOKENS
from tf_transformer.tasks.translate import TRANSLATE

_ALL = (
    *(TRANSLATE, NBEST, ALIGN, COMPLETE, TOKENS, SCORE_PAIR, SAMPLE, SAMPLE_EPSILON),
    *(TRANSLATE_DOCUMENT, TRANSLATE_DOCUMENT_WITH_TERMS, TRANSLATE_WITH_TERMS),
    *(TRANSLATE_MARKUP, TRANSLATE_MARKUP_WITH_TERMS, WORD_LINKS),
    *(ADAPTED, CONFIDENCE, LANGUAGE, CONTINUATION),
)

TASKS: dict[str, Task] = {task.name: task for task in _ALL}
"""The tasks by name."""

TASK_OF: dict[str, Task] = {name: task for task in _ALL for name in task.signatures}
"""The task of each signature."""
