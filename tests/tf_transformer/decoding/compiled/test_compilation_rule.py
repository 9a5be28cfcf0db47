"""When `--xla` compiles a search, in numbers of searches."""

import pytest

from tf_transformer.decoding.compiled.compilation_rule import CompilationRule


def run(rule, num_calls, size=1, after=3):
    return [rule.compiles(size, after) for _ in range(num_calls)]


def test_on_and_off():
    for after in (3, 0, None):
        assert run(CompilationRule("on", False), 5, after=after) == [True] * 5
        assert run(CompilationRule("off", False), 5, after=after) == [False] * 5


def test_auto_compiles_each_size_after_its_own_searches():
    rule = CompilationRule("auto", False)
    assert run(rule, 2) == [False] * 2
    assert run(rule, 4, size="another") == [False] * 3 + [True]
    assert run(rule, 3) == [False, True, True]
    assert run(rule, 9, size="never", after=None) == [False] * 9


def test_int8_is_never_compiled():
    assert run(CompilationRule("auto", True), 5) == [False] * 5
    assert run(CompilationRule("off", True), 5) == [False] * 5
    with pytest.raises(ValueError, match="XLA cannot compile a model in int8"):
        CompilationRule("on", True)


@pytest.mark.parametrize("xla", ["yes", True, None, ["on"]])
def test_other_values(xla):
    with pytest.raises(ValueError, match=r"`xla` must be one of auto, on, off\. Received: "):
        CompilationRule(xla, False)
