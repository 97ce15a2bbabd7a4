"""Log-probabilities in OpenAI's shapes; a character may lie across tokens."""

from tests.unit.serving.byte_tokenizer import ByteTokenizer

from specfleet_serving.core import TokenLogprob
from specfleet_serving.logprobs import LogprobWriter

TEXT = tuple("a€b".encode())


def some(count: int) -> list[TokenLogprob]:
    return [TokenLogprob(-1.0, ((97, -0.5), (98, -2.0)))] * count


def test_offsets_count_whole_characters_across_tokens_and_runs() -> None:
    writer = LogprobWriter(ByteTokenizer(), chat=False)

    runs = [writer.write(TEXT[:2], some(2)), writer.write(TEXT[2:], some(3))]

    # The euro sign is three bytes: it is there after its last one.
    assert [run["text_offset"] for run in runs] == [[0, 1], [1, 1, 2]]
    assert [run["tokens"] for run in runs] == [["a", "bytes:\\xe2"], ["bytes:\\x82", "bytes:\\xac", "b"]]


def test_the_token_itself_is_among_the_likeliest_of_a_completion() -> None:
    shown = LogprobWriter(ByteTokenizer(), chat=False).write((99,), some(1))

    assert shown["token_logprobs"] == [-1.0]
    assert shown["top_logprobs"] == [{"a": -0.5, "b": -2.0, "c": -1.0}]


def test_the_bytes_of_a_chat_make_up_its_text() -> None:
    content = LogprobWriter(ByteTokenizer(), chat=True).write(TEXT, some(5))["content"]

    assert bytes(byte for entry in content for byte in entry["bytes"]).decode() == "a€b"
    assert content[0]["top_logprobs"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97]},
        {"token": "b", "logprob": -2.0, "bytes": [98]},
    ]
