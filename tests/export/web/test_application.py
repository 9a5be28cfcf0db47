"""The web application: translations, limits, failures, headers and metrics."""

import concurrent.futures
import functools
import json
import re

import pytest

from tests.export.web.translating import BEAM_SIZE, OPTIONS, make_behaviour
from tf_transformer.decoding.search_options import SEARCH_OPTIONS
from tf_transformer.predictors.client.client import Client

FLOAT = functools.partial(pytest.approx, rel=1e-6)  # a float32


def post(web, **body):
    return web.post("/api/translate", json=body)


def translations(response):
    assert response.status_code == 200, response.text
    return response.json()["translations"]


def refused(response, status):
    """The message of a refusal, which is one line."""
    assert response.status_code == status, response.text
    (message,) = response.json().values()
    assert "\n" not in message
    return message


def metric(web, name):
    """The value of a metric, by its name and labels as Prometheus writes them."""
    (value,) = re.findall(rf"^{re.escape(name)} (.+)$", web.get("/metrics").text, re.MULTILINE)
    return float(value)


# ---- Translations ----


def test_translations(web, behaviour):
    found = translations(post(web, lines=["one line", "", "  ", "another"]))
    assert found == [
        {"best": [{"text": "ONE LINE", "score": FLOAT(-0.8)}], "truncated": False},
        None,
        None,
        {"best": [{"text": "ANOTHER", "score": FLOAT(-0.7)}], "truncated": False},
    ]
    assert behaviour.requests == [[b"one line", b"another"]]  # no blank ones


def test_long_sentences_are_reported_as_truncated(web):
    (found,) = translations(post(web, lines=["a" * 101]))
    assert found["truncated"] is True


def test_n_best(web):
    (found,) = translations(post(web, lines=["a b"], num_best=2))
    assert found["best"] == [
        {"text": "A B", "score": -0.5, "num_tokens": 3},
        {"text": "A B 2", "score": -1.0, "num_tokens": 4},
    ]


def test_empty_entries_of_the_n_best_are_left_out(web):
    (found,) = translations(post(web, lines=["a b"], num_best=4))
    assert [best["text"] for best in found["best"]] == ["A B", "A B 2", "A B 3"]


def test_alignment(web):
    (found,) = translations(post(web, lines=["a b c"], alignment=True))
    assert found["best"] == [{"text": "A B C", "score": -0.5}]
    assert found["alignment"] == {
        "source_pieces": ["▁a", "▁b", "▁c"],
        "target_pieces": ["▁A", "▁B", "▁C"],
        "hard": [[1, 0], [0, 1], [2, 2]],
        "soft": [[0.1, 0.8, 0.1, 0.1], [0.8, 0.1, 0.1, 0.1], [0.1, 0.1, 0.8, 0.1]],
    }


def test_n_best_and_alignment_together(web):
    (found,) = translations(post(web, lines=["a b"], num_best=3, alignment=True))
    assert len(found["best"]) == 3
    assert found["alignment"]["hard"] == [[1, 0], [0, 1]]


def test_confidence(web, behaviour):
    confident = make_behaviour(is_confident=True)
    behaviour.specs, behaviour.answers = confident.specs, confident.answers
    assert web.get("/api/model").json()["confidence"]
    (found,) = translations(post(web, lines=["a b c"], confidence=True))
    assert found["best"] == [{"text": "A B C", "score": -0.5}]
    assert found["confidence"] == {"mean": 0.625, "words": [["A", 0.4], ["B", 0.7], ["C", 1.0]]}


def test_a_model_without_confidence(web):
    message = "no signature 'confidence', which `confidence` needs; export it with --confidence F"
    assert message in refused(post(web, lines=["a"], confidence=True), 400)


WRONG_CONFIDENCES = [
    ("0.5", 0.5),
    ("0.5 x", 0.5),
    ("0.5 1.1", 0.5),
    ("0.5 nan", 0.5),
    ("1 1", -0.1),
]


@pytest.mark.parametrize(("numbers", "mean"), WRONG_CONFIDENCES)
def test_wrong_confidences(web, behaviour, numbers, mean):
    confident = make_behaviour(is_confident=True)
    behaviour.specs, behaviour.answers = confident.specs, confident.answers
    answer = behaviour.answers["confidence"]
    wrong = {"word_confidences": [numbers.encode()], "confidence": [mean]}
    behaviour.answers["confidence"] = lambda **inputs: answer(**inputs) | wrong
    assert "failed" in refused(post(web, lines=["a b"], confidence=True), 502)


@pytest.mark.parametrize("others", [{}, {"num_best": 2}, {"alignment": True}])
def test_options_are_sent_and_others_are_not_set(web, others):
    options = {"beam_size": 2, "length_penalty": 0, "coverage_penalty": 0.5}
    (found,) = translations(post(web, lines=["a"], options=options, **others))
    assert found["best"][0]["text"] == "A beam_size=2 length_penalty=0 coverage_penalty=0.5"


def test_search_options_of_the_command(make_web):
    """They are for requests that give none; the beam size is also the largest."""
    web = make_web(search={"beam_size": 2, "length_penalty": 0.5})
    for options, expected in (
        ({}, "beam_size=2 length_penalty=0.5"),
        ({"beam_size": 0, "length_penalty": 0}, "beam_size=2 length_penalty=0"),
        ({"beam_size": 1, "max_length": 9}, "beam_size=1 length_penalty=0.5 max_length=9"),
    ):
        (found,) = translations(post(web, lines=["a"], options=options))
        assert found["best"][0]["text"] == f"A {expected}"
    message = refused(post(web, lines=["a"], options={"beam_size": 3}), 400)
    assert message == "`beam_size` must be an integer from 0 to 2. Received: 3"
    message = refused(post(web, lines=["a"], num_best=3), 400)
    assert message == "`num_best` must be an integer from 1 to 2. Received: 3"


def test_any_text_is_passed_on(web):
    lines = ["<img src=x onerror=alert(1)>", "\u202eabc\x00", "\U0001f600"]
    found = translations(post(web, lines=lines))
    assert [entry["best"][0]["text"] for entry in found] == [line.upper() for line in lines]


def test_languages(make_web, behaviour):
    web = make_web(target_languages=("de", "fr"), source_languages=("en",))
    lines = ["hello", "", "world"]
    body = {"lines": lines, "target_language": "fr", "source_language": "en"}
    found = translations(post(web, **body))
    assert behaviour.requests == [[b">>fr<< >>en<< hello", b">>fr<< >>en<< world"]]
    assert found[1] is None
    for wrong in (None, "xx", ["fr"]):
        message = refused(post(web, **body | {"target_language": wrong}), 400)
        assert "`target_language` must be one of de, fr" in message
    message = refused(post(web, **body | {"lines": ["<2de> hello"]}), 400)
    assert message.startswith("line 1: starts with a language tag already")


# ---- Sentences ----

TWO = "Dr. Ng is in.  He waits."


def whole(text, score):
    return {"best": [{"text": text, "score": FLOAT(score)}], "truncated": False}


def test_sentences_of_a_line_are_translated_on_their_own(web, behaviour):
    found = translations(post(web, lines=[TWO, "", "one"]))
    first, second = b"Dr. Ng is in.", b"He waits."
    assert behaviour.requests == [[first, second, b"one"]]
    assert found[1:] == [None, whole("ONE", -0.3)]
    scores = [FLOAT(-1.3), FLOAT(-0.9)]
    assert found[0]["best"] == [{"text": "DR. NG IS IN.  HE WAITS.", "score": FLOAT(-1.1)}]
    assert [x["source"] for x in found[0]["sentences"]] == [first.decode(), second.decode()]
    assert [x["best"][0]["score"] for x in found[0]["sentences"]] == scores
    assert metric(web, "tf_transformer_web_sentences_total") == 3


def test_details_of_each_sentence(web):
    (found,) = translations(post(web, lines=[TWO], num_best=2, alignment=True))
    assert (len(found["best"]), "alignment" in found) == (1, False)
    for sentence, text in zip(found["sentences"], ("DR. NG IS IN.", "HE WAITS."), strict=True):
        assert [best["text"] for best in sentence["best"]] == [text, f"{text} 2"]
        assert sentence["alignment"]["target_pieces"] == [f"▁{word}" for word in text.split()]


def test_a_sentence_that_is_truncated(web):
    (found,) = translations(post(web, lines=["It is. " + "A" * 101]))
    assert found["truncated"] and not found["sentences"][0]["truncated"]


def test_chinese_sentences(web, behaviour):
    (found,) = translations(post(web, lines=["你好。再见！"]))
    assert behaviour.requests == [["你好。".encode(), "再见！".encode()]]
    assert found["best"][0]["text"] == "你好。再见！"


def test_tags_of_each_sentence(make_web, behaviour):
    web = make_web(target_languages=("fr",))
    translations(post(web, lines=["It is. So."], target_language="fr"))
    assert behaviour.requests == [[b"<2fr> It is.", b"<2fr> So."]]


def test_documents_are_split_by_the_server(web, behaviour, monkeypatch):
    monkeypatch.setattr("export.web.served_model._FRESH", 0.0)
    other = make_behaviour(has_documents=True)
    behaviour.specs, behaviour.answers = other.specs, other.answers
    for options, suffix in (({}, "."), ({"options": {"beam_size": 2}}, " beam_size=2.")):
        found = translations(post(web, lines=[TWO, "", "a"], **options))
        assert found == [whole(f"{TWO.upper()}{suffix}", -2.4), None, whole(f"A{suffix}", -0.1)]
    assert behaviour.requests[0] == [TWO.encode(), b"a"]
    # It has no n best, and no options where only `document` is exported.
    (found,) = translations(post(web, lines=[TWO], num_best=2))
    assert len(found["sentences"]) == 2
    del behaviour.specs["document_options"]
    (found,) = translations(post(web, lines=["a"], options={"beam_size": 2}))
    assert found["best"][0]["text"] == "A beam_size=2"


def test_a_line_as_one_sentence(make_web, behaviour):
    other = make_behaviour(has_documents=True)
    behaviour.specs, behaviour.answers = other.specs, other.answers
    web = make_web(splits_sentences=False)
    (found,) = translations(post(web, lines=[TWO]))
    assert behaviour.requests == [[TWO.encode()]]
    assert found["best"][0]["text"] == TWO.upper()


def test_languages_of_the_text(make_web, behaviour):
    make = functools.partial(make_web, document_languages=("en",))
    translations(post(make(), lines=["It is Nr. 5 there."]))
    assert behaviour.requests == [[b"It is Nr.", b"5 there."]]


def test_sentences_of_a_line_count(make_web):
    web = make_web(max_sentences=2)
    message = refused(post(web, lines=["One. Two. Three."]), 400)
    assert message == "expected 1 to 2 sentences that are not blank. Received: 3"


# ---- What the model offers ----


def test_what_the_model_offers(make_web):
    found = make_web(model="de-en", max_sentences=7).get("/api/model").json()
    options = found.pop("options")
    assert found == {
        "model": "de-en",
        "translates": True,
        "num_best": BEAM_SIZE,
        "alignment": True,
        "confidence": False,
        "target_languages": [],
        "source_languages": [],
        "max_sentences": 7,
        "max_characters": 5000,
    }
    assert [option["name"] for option in options] == list(OPTIONS)
    for option, expected in zip(options, SEARCH_OPTIONS, strict=True):
        assert option["description"] == expected.description
        assert option["unset_meaning"] == expected.unset_meaning
        assert option["largest"] == expected.largest or option["largest"] == 2**31 - 1


def test_a_model_with_one_signature(web, behaviour):
    behaviour.specs = {"serving_default": behaviour.specs["serving_default"]}
    found = web.get("/api/model").json()
    assert (found["num_best"], found["alignment"], found["options"]) == (1, False, [])
    assert translations(post(web, lines=["a"]))[0]["best"][0]["text"] == "A"
    for body, lack in (
        ({"num_best": 2}, "'nbest' or 'nbest_options', which `num_best` needs"),
        ({"alignment": True}, "'align' or 'align_options', which `alignment` needs"),
        ({"options": {"beam_size": 1}}, "'translate_options', which `options` needs"),
    ):
        message = f"the model has no signature {lack}; export it with --signatures all"
        assert refused(post(web, lines=["a"], **body), 400) == message
    assert "as option none" in refused(post(web, lines=["a"], options={"text": 1}), 400)


def test_a_task_without_options(make_web, behaviour):
    """They are refused for it alone, whoever gives them."""
    del behaviour.specs["align_options"]
    lack = "the model has no signature 'align_options', which {} needs; export it with"
    options = {"min_length": 2}
    (found,) = translations(post(make_web(), lines=["a"], options=options))
    assert found["best"][0]["text"] == "A min_length=2"
    message = refused(post(make_web(), lines=["a"], options=options, alignment=True), 400)
    assert message.startswith(lack.format("`options`"))
    web = make_web(search={"length_penalty": 0.5})
    (found,) = translations(post(web, lines=["a"], num_best=2))
    assert found["best"][0]["text"] == "A length_penalty=0.5"
    message = refused(post(web, lines=["a"], alignment=True), 400)
    assert message.startswith(lack.format("--length-penalty"))


def test_a_model_with_options_only(web, behaviour):
    behaviour.specs = {"nbest_options": behaviour.specs["nbest_options"]}
    assert translations(post(web, lines=["a"])) == [
        {"best": [{"text": "A", "score": -0.5, "num_tokens": 3}], "truncated": False}
    ]


def test_a_model_without_text(web, behaviour):
    behaviour.specs = {"tokens": ({"ids": ("DT_INT32", (9,))}, {"ids": ("DT_INT32", (9,))})}
    assert web.get("/api/model").json()["translates"] is False
    message = refused(post(web, lines=["a"]), 400)
    assert message.startswith("the model has no signature 'serving_default' or 'translate_options'")


def test_a_language_model(web, behaviour):
    behaviour.specs = {"continuation": behaviour.specs["translate_options"]}
    message = refused(post(web, lines=["a"]), 400)
    assert message.endswith("; export it with a translation model as --model-dir")


def test_everyone_who_opens_the_page_asks_the_server_once(web, behaviour):
    for _ in range(5):
        web.get("/api/model")
    assert behaviour.metadata_requests == 1


def test_a_new_version_of_the_model_is_noticed(web, behaviour, monkeypatch):
    monkeypatch.setattr("export.web.served_model._FRESH", 0.0)
    assert web.get("/api/model").json()["alignment"]
    del behaviour.specs["align"], behaviour.specs["align_options"]
    assert not web.get("/api/model").json()["alignment"]


def test_after_a_failure_the_server_is_asked_again(web, behaviour):
    translations(post(web, lines=["a"]))
    behaviour.failures = ["INTERNAL"] * 3
    refused(post(web, lines=["a"]), 502)
    translations(post(web, lines=["a"]))
    assert behaviour.metadata_requests == 2


# ---- Invalid requests ----

INVALID = {
    "no lines": ({}, "`lines` must be a list of strings"),
    "a text": ({"lines": "a"}, "`lines` must be a list of strings"),
    "numbers": ({"lines": [1]}, "`lines` must be a list of strings"),
    "nothing": ({"lines": []}, "1 to 50 sentences that are not blank. Received: 0"),
    "blank": ({"lines": [" ", "\u3000"]}, "1 to 50 sentences that are not blank. Received: 0"),
    "many": ({"lines": ["a"] * 51}, "1 to 50 sentences that are not blank. Received: 51"),
    "many blank": ({"lines": ["a", *[""] * 100]}, "at most 100 lines"),
    "long": ({"lines": ["a" * 2501, "b" * 2500]}, "at most 5000 characters. Received: 5001"),
    "unknown field": ({"lines": ["a"], "signature_name": "x"}, "Received: 'signature_name'"),
    "zero best": ({"lines": ["a"], "num_best": 0}, "`num_best` must be an integer from 1 to 4"),
    "many best": ({"lines": ["a"], "num_best": 5}, "`num_best` must be an integer from 1 to 4"),
    "a true best": ({"lines": ["a"], "num_best": True}, "`num_best` must be an integer"),
    "half a best": ({"lines": ["a"], "num_best": 1.5}, "`num_best` must be an integer"),
    "alignment": ({"lines": ["a"], "alignment": 1}, "`alignment` must be true or false"),
    "confidence": ({"lines": ["a"], "confidence": 1}, "`confidence` must be true or false"),
    "options": ({"lines": ["a"], "options": []}, "`options` must be an object"),
    "unknown option": ({"lines": ["a"], "options": {"text": 1}}, "Received: 'text'"),
    "no number": (
        {"lines": ["a"], "options": {"beam_size": "4"}},
        "`beam_size` must be an integer from 0 to 1000. Received: '4'",
    ),
    "negative": (
        {"lines": ["a"], "options": {"length_penalty": -0.5}},
        "`length_penalty` must be a number from 0 to 10.0. Received: -0.5",
    ),
    "too large": ({"lines": ["a"], "options": {"beam_size": 1001}}, "from 0 to 1000"),
    "above int32": ({"lines": ["a"], "options": {"max_length": 2**31}}, "from 0 to 2147483647"),
    "a fraction": ({"lines": ["a"], "options": {"max_length": 1.5}}, "must be an integer"),
    "a language": ({"lines": ["a"], "target_language": "de"}, "`target_language` must be none"),
}


@pytest.mark.parametrize("name", INVALID)
def test_invalid_requests(web, behaviour, name):
    body, expected = INVALID[name]
    assert expected in refused(post(web, **body), 400)
    assert behaviour.requests == []


BODIES = {
    "empty": b"",
    "half a character": rb'{"lines": ["a\ud800"]}',
    "no JSON": b"lines=a",
    "no UTF-8": b'{"lines": ["\xff"]}',
    "a list": b"[]",
    "deep": b"[" * 50_000,
    "a long number": b'{"lines": ["a"], "num_best": ' + b"1" * 10_000 + b"}",
    "not a number": b'{"lines": ["a"], "options": {"length_penalty": NaN}}',
    "infinite": b'{"lines": ["a"], "options": {"length_penalty": Infinity}}',
    "a large exponent": b'{"lines": ["a"], "options": {"length_penalty": 1e999}}',
}


@pytest.mark.parametrize("name", BODIES)
def test_invalid_bodies(web, behaviour, name):
    headers = {"Content-Type": "application/json"}
    refused(web.post("/api/translate", content=BODIES[name], headers=headers), 400)
    assert behaviour.requests == []


def test_bodies_that_are_too_long(make_web, behaviour):
    web = make_web(max_characters=10)
    for chunks in (b"a" * 10_000, iter([b"a" * 5000] * 2)):  # with a stated length and without
        response = web.post(
            "/api/translate", content=chunks, headers={"Content-Type": "application/json"}
        )
        assert "at most 5016 bytes" in refused(response, 413)
    assert behaviour.requests == []
    # The longest valid body: each character as two escapes.
    body = json.dumps({"lines": ["\U0001f600" * 10]})
    response = web.post(
        "/api/translate", content=body, headers={"Content-Type": "application/json"}
    )
    assert len(translations(response)) == 1


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_other_sites_cannot_send_requests_through_a_browser(web, behaviour, content_type):
    """A form or a script of another site cannot send JSON without a preflight, which fails."""
    response = web.post(
        "/api/translate", content=b'{"lines": ["a"]}', headers={"Content-Type": content_type}
    )
    assert "application/json" in refused(response, 415)
    preflight = web.options(
        "/api/translate",
        headers={"Origin": "https://other.example", "Access-Control-Request-Method": "POST"},
    )
    assert preflight.status_code == 405
    assert not any(name.startswith("access-control") for name in preflight.headers)
    assert behaviour.requests == []


def test_other_names_for_this_server(make_web, behaviour):
    """A page of another site, whose name its owner gives this address, is not of this one."""
    web = make_web(allowed_hosts=("localhost", "[::1]", "*.example.com"))
    for host, status in {
        "localhost:8080": 200,
        "LOCALHOST": 200,
        "[::1]:8080": 200,
        "translate.example.com": 200,
        "evil.example": 400,
        "localhost.evil.example": 400,
        "": 400,
    }.items():
        body = {"lines": ["a"]}
        response = web.post("/api/translate", json=body, headers={"Host": host})
        assert response.status_code == status, host
    assert len(behaviour.requests) == 4


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/translate", 404),
        ("POST", "/api/model", 405),
        ("POST", "/", 405),
        ("GET", "/v1/models/translator:predict", 404),
        ("POST", "/v1/models/translator:predict", 405),
        ("GET", "/../settings.py", 404),
        ("GET", "/%2e%2e/settings.py", 404),
        ("GET", "/..%2fsettings.py", 404),
        ("GET", "/page.css%00", 404),
        ("GET", "/application.py", 404),
    ],
)
def test_nothing_else_is_served(web, method, path, status):
    refused(web.request(method, path), status)


# ---- Failures of the server ----


def test_the_server_is_not_available(web, behaviour, caplog):
    behaviour.failures = ["UNAVAILABLE"] * 2
    response = post(web, lines=["a"])
    assert refused(response, 503).startswith("the translation server is not available")
    assert response.headers["Retry-After"] == "5"
    assert "always busy" in caplog.text or "as the script says" in caplog.text


def test_the_server_has_too_many_requests(web, behaviour, caplog):
    """Whoever translates is told to wait, and the operator which flag TF Serving needs."""
    behaviour.max_calls = 0
    response = post(web, lines=["a"])
    message = "the translation server has too many requests; try again later"
    assert refused(response, 503) == message
    assert response.headers["Retry-After"] == "5"
    assert "start TF Serving with --grpc_max_threads=64" in caplog.text


def test_the_server_is_not_there(make_web):
    web = make_web(address="127.0.0.1:1")
    refused(web.get("/api/model"), 503)
    refused(post(web, lines=["a"]), 503)
    assert web.get("/health").text == "ok\n"


def test_an_absent_server_is_not_asked_for_each_request(web, behaviour, monkeypatch):
    asked = []

    def refresh(self):
        asked.append(1)
        raise ConnectionError("absent")

    monkeypatch.setattr(Client, "refresh_signatures", refresh)
    for _ in range(5):
        refused(web.get("/api/model"), 503)
    assert len(asked) == 1


def test_the_server_is_late(make_web, behaviour):
    behaviour.slow = 60.0
    web = make_web(deadline=0.2)
    assert "did not respond in time" in refused(post(web, lines=["slow"]), 504)


@pytest.mark.parametrize("code", ["INTERNAL", "INVALID_ARGUMENT", "PERMISSION_DENIED", "NOT_FOUND"])
def test_the_server_fails(web, behaviour, caplog, code):
    behaviour.failures = [(code, "secret of 10.0.0.7")] * 3
    message = refused(post(web, lines=["a"]), 502)
    assert message == "the translation server failed; its operator finds the reason"
    assert "secret of 10.0.0.7" in caplog.text  # where the operator finds it


WRONG_ANSWERS = {
    "a score": ({}, "serving_default", "score", [float("nan")]),
    "a score of the n best": ({"num_best": 2}, "nbest", "scores", [[float("inf"), 0, 0, 0]]),
    "only empty ones": ({"num_best": 2}, "nbest", "scores", [[-1e9] * 4]),
    "a pair": ({"alignment": True}, "align", "hard_alignment", [b"0-1"]),
    "no pair": ({"alignment": True}, "align", "hard_alignment", [b"<b>-0"]),
    "few weights": ({"alignment": True}, "align", "soft_alignment", [b"0.5"]),
    "few words": ({"alignment": True}, "align", "soft_alignment", [b""]),
    "a weight": ({"alignment": True}, "align", "soft_alignment", [b"nan,0.5"]),
    "rows": ({}, "serving_default", "translation", [b"a", b"b"]),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_the_server_answers_nonsense(web, behaviour, name):
    body, signature, output, values = WRONG_ANSWERS[name]
    answer = behaviour.answers[signature]
    behaviour.answers[signature] = lambda **inputs: answer(**inputs) | {output: values}
    assert "failed" in refused(post(web, lines=["a"], **body), 502)


def test_a_bug_shows_no_internals(web, monkeypatch):
    def fail(*_):
        raise KeyError("secret")

    monkeypatch.setattr("export.web.application.translate", fail)
    assert refused(post(web, lines=["a"]), 500) == "internal error"
    assert metric(web, 'tf_transformer_web_requests_total{outcome="failed"}') == 1


# ---- Concurrency ----


def test_requests_beyond_the_limit_are_refused(make_web, behaviour):
    web = make_web(max_concurrent=2)
    translations(post(web, lines=["a"]))
    behaviour.slow = 60.0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(post, web, lines=["slow"]) for _ in range(2)]
        behaviour.wait_until_at_once(2)
        assert metric(web, "tf_transformer_web_requests_in_flight") == 2
        response = post(web, lines=["a"])
        assert "too many requests" in refused(response, 503)
        assert response.headers["Retry-After"] == "5"
        assert web.get("/").status_code == 200  # the page is still there
        behaviour.stopped.set()
        for future in waiting:
            translations(future.result())
    translations(post(web, lines=["a"]))
    assert metric(web, "tf_transformer_web_requests_in_flight") == 0
    assert metric(web, 'tf_transformer_web_requests_total{outcome="busy"}') == 1


# ---- Metrics and headers ----


def test_metrics(web, behaviour):
    post(web, lines=["one", "", "a" * 101])
    post(web, lines=[])
    behaviour.failures = ["UNAVAILABLE"] * 2
    post(web, lines=["a"])
    expected = {
        'requests_total{outcome="translated"}': 1,
        'requests_total{outcome="invalid"}': 1,
        'requests_total{outcome="unavailable"}': 1,
        'requests_total{outcome="late"}': 0,
        "request_seconds_count": 2,
        "sentences_total": 2,
        "source_characters_total": 104,
        "truncated_sentences_total": 1,
        "max_requests_in_flight": 8,
    }
    for name, value in expected.items():
        assert metric(web, f"tf_transformer_web_{name}") == value, name


def test_metrics_can_be_elsewhere(make_web):
    refused(make_web(shows_metrics=False).get("/metrics"), 404)


@pytest.mark.parametrize("path", ["/", "/page.js", "/api/model", "/health", "/nowhere"])
def test_headers(web, path):
    headers = web.get(path).headers
    policy = headers["Content-Security-Policy"].split("; ")
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not any("unsafe" in part or "http" in part for part in policy)
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == ("no-cache" if path in ("/", "/page.js") else "no-store")
