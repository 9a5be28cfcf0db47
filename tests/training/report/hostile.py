"""Sentences that try to be something else than text."""

HOSTILE = [
    "<script>document.title='bad'</script>",
    "</script><img src=x onerror=\"document.title='bad'\">",
    "abc \u202eevil\u202c def \u2066x\u2069",
    "nul \x00 bell \x07 esc \x1b[31m c1 \x9b",
    "x" * 20_000,
    "",
    "   ",
    "<!--<script>",
    "{{ 7*7 }} {% raw %}",
    "שלום עולם 12 (abc)",
    "word " * 3000,
    "line\u2028and\u2029paragraph, mark \ufeff",
    "日本語のテキスト、東京。",
    "e\u0301\u0301 tag \U000e0041",
    "$x^2$ & &amp; &lt;b&gt; \"q\" 'q' \\u003c",
    "tab\there",
]
NAME = "<b onclick=\"document.title='bad'\">A&B</b>"
