"""Which processors have arithmetic in bfloat16, by the lines of Linux' /proc/cpuinfo."""

import pytest

from tf_transformer.command_line import processor


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512f avx512_vnni", True),
        ("flags\t\t: fpu avx512f avx512_bf16 avx512_vnni", False),
        ("flags\t\t: fpu avx512f amx_bf16 amx_tile", False),
        ("Features\t: fp asimd sve bf16 i8mm", False),
        ("Features\t: fp asimd crc32", True),
        ("", False),
    ],
)
def test_lacks_bfloat16(line, expected, tmp_path, monkeypatch):
    info = tmp_path / "cpuinfo"
    info.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    monkeypatch.setattr(processor, "_CPU_INFO", info)
    assert processor.lacks_bfloat16() == expected


def test_unknown_processor(tmp_path, monkeypatch):
    monkeypatch.setattr(processor, "_CPU_INFO", tmp_path / "missing")
    assert not processor.lacks_bfloat16()
