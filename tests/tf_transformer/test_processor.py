"""What processors can do, by the lines of Linux' /proc/cpuinfo."""

import pytest

from tf_transformer import processor


@pytest.mark.parametrize(
    ("line", "lacks_bfloat16", "has_avx512", "has_vnni"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512f avx512_vnni", True, True, True),
        ("flags\t\t: fpu avx512f avx512_bf16", False, True, False),
        ("flags\t\t: fpu avx512f amx_bf16 amx_tile amx_int8", False, True, True),
        ("flags\t\t: fpu sse2 avx avx2 avx_vnni", True, False, True),
        ("Features\t: fp asimd sve bf16 i8mm", False, False, False),
        ("Features\t: fp asimd crc32", True, False, False),
        ("", False, False, False),
    ],
)
def test_features(line, lacks_bfloat16, has_avx512, has_vnni, tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    monkeypatch.setattr(processor, "_CPU_INFO", info)
    assert processor.lacks_bfloat16() == lacks_bfloat16
    assert processor.has_avx512() == has_avx512
    assert processor.has_vnni() == has_vnni


def test_unknown_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "_CPU_INFO", tmp_path / "missing")
    assert not processor.lacks_bfloat16()
    assert not processor.has_avx512()
    assert not processor.has_vnni()
