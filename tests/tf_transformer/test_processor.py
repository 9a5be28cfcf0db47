"""What processors can do, by the lines of Linux' /proc/cpuinfo."""

import pytest

from tf_transformer import processor


@pytest.mark.parametrize(
    ("line", "lacks_bfloat16", "has_avx512"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512f avx512_vnni", True, True),
        ("flags\t\t: fpu avx512f avx512_bf16 avx512_vnni", False, True),
        ("flags\t\t: fpu avx512f amx_bf16 amx_tile", False, True),
        ("flags\t\t: fpu sse2 avx avx2 fma", True, False),
        ("Features\t: fp asimd sve bf16 i8mm", False, False),
        ("Features\t: fp asimd crc32", True, False),
        ("", False, False),
    ],
)
def test_features(line, lacks_bfloat16, has_avx512, tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    monkeypatch.setattr(processor, "_CPU_INFO", info)
    assert processor.lacks_bfloat16() == lacks_bfloat16
    assert processor.has_avx512() == has_avx512


def test_unknown_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "_CPU_INFO", tmp_path / "missing")
    assert not processor.lacks_bfloat16()
    assert not processor.has_avx512()
