"""Translation and generation by transformers: our folders are encoder and decoder of its EncoderDecoderModel."""

from pathlib import Path
from types import ModuleType

import pytest
import torch
from small_models import write_model
from small_tasks import exported_model

from trainer.huggingface.checkpoints import load_pretrained
from trainer.tasks.heads.task_model import batch_items, build_pretrained_encoder
from trainer.tasks.kinds.next_word import NextTask
from trainer.tasks.task import TaskItem, Tokens
from trainer.tasks.text_encoder import TextEncoder, to_ids


@pytest.mark.filterwarnings("ignore:Version v4.12.0:FutureWarning")  # said of every loss
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_an_export_is_the_encoder_of_a_translation(tmp_path: Path, transformers: ModuleType, family: str) -> None:
    """Its vectors are ours, a step of training has a finite loss, and it reaches the encoder.

    Fails where transformers draws the encoder's weights anew, as it does without a word where names do not match.
    """
    folder = write_model(tmp_path / "encoder", family)
    exported_model(NextTask(), folder, tmp_path / "decoder")
    model = transformers.EncoderDecoderModel.from_encoder_decoder_pretrained(
        folder, tmp_path / "decoder", decoder_add_cross_attention=True
    )
    special = load_pretrained(folder).inputs.special_ids
    model.config.decoder_start_token_id, model.config.pad_token_id = special.cls, special.pad
    encoder = TextEncoder.from_folder(folder, load_pretrained(folder).inputs, 40)
    source, target = (
        torch.from_numpy(to_ids(each).astype("int64"))[None] for each in encoder.encode(["the film", "a plot"])
    )
    with torch.no_grad():
        item = TaskItem(sequences=(Tokens.from_encoding(encoder.encode(["the film"])[0]),), example=0)
        wanted = build_pretrained_encoder(load_pretrained(folder)).eval()(batch_items([item]))[None]
        torch.testing.assert_close(model.eval().encoder(source).last_hidden_state, wanted, atol=1e-5, rtol=1e-5)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(2):
        loss = model(input_ids=source, labels=target).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert torch.isfinite(torch.tensor(losses)).all() and losses[1] < losses[0]
    with torch.no_grad():
        assert (model.encoder(source).last_hidden_state - wanted).abs().max() > 1e-4, "the encoder has learnt nothing"
