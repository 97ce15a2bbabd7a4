"""Tokenizers whose tokens are not their text alone, as SentencePiece's are."""

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from specfleet_engine.tokenizer import EngineTokenizer
from specfleet_serving.core import Sampling, TokenLogprob
from specfleet_serving.logprobs import LogprobWriter
from specfleet_serving.text import Assembler

END = 1
EURO = (4, 5, 6)
PIECES = ("<s>", "</s>", "▁cat", "▁sat", "<0xE2>", "<0x82>", "<0xAC>", "s")


def sentence_pieces() -> EngineTokenizer:
    """With the decoder of Llama 2 and Mistral, which takes the space before a text's first word away."""
    ids = {piece: number for number, piece in enumerate(PIECES)}
    backend = Tokenizer(models.BPE(ids, [], byte_fallback=True))
    backend.add_special_tokens([AddedToken(piece, special=True) for piece in PIECES[:2]])
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return EngineTokenizer(
        PreTrainedTokenizerFast(tokenizer_object=backend), frozenset({END}), vocabulary_size=len(PIECES)
    )


@pytest.mark.parametrize(
    ("prompt", "text", "offsets"),
    [
        pytest.param((), "sat cats", [0, 3, 7], id="alone"),
        pytest.param((2,), " sat cats", [0, 4, 8], id="after-a-word"),
        pytest.param((0, END), "sat cats", [0, 3, 7], id="after-special-tokens"),
        pytest.param((2, EURO[0]), "sat cats", [0, 3, 7], id="after-a-part-of-a-character"),
    ],
)
def test_a_completion_goes_on_from_its_prompt(prompt: tuple[int, ...], text: str, offsets: list[int]) -> None:
    tokens = (3, 2, 7)
    tokenizer = sentence_pieces()

    piece = Assembler(tokenizer, Sampling(max_tokens=3), prompt).push(tokens)
    shown = LogprobWriter(tokenizer, False, prompt).write(tokens, [TokenLogprob(-1.0)] * 3)

    assert piece.text == text
    assert shown["text_offset"] == offsets


def test_offsets_point_into_the_text_that_the_answer_has() -> None:
    tokens = (2, 3, END, *EURO, 7)
    tokenizer = sentence_pieces()

    piece = Assembler(tokenizer, Sampling(max_tokens=len(tokens))).push(tokens)
    shown = LogprobWriter(tokenizer, chat=False).write(tokens, [TokenLogprob(-1.0)] * len(tokens))

    # The end-of-sequence token was ignored: it has no text. The euro sign is there after its last byte.
    assert piece.text == "cat sat€s"
    assert shown["text_offset"] == [0, 3, 7, 7, 7, 7, 8]
