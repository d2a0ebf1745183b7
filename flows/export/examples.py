"""The code in a card: how to open what was exported, and how to train on examples. A test executes it."""

from flows.export.exported import Exported

FOLDER = "path/of/this/folder"


def opening(content: Exported) -> list[str]:
    """How `datasets` opens it."""
    called = "examples" if content.has_examples else "documents"
    return [
        "from datasets import load_dataset",
        "",
        f'folder = "{FOLDER}"  # or its name on a hub',
        f"{called} = load_dataset(folder)",
        f'print({called}["{content.splits[0]}"][0])',
    ]


def training(content: Exported) -> list[str]:
    """How transformers trains a small BERT on it; nothing for rows that are no masked examples."""
    facts = content.provenance.manifest.facts
    if not content.has_examples or not content.extra or facts.get("masking") not in ("static", "dynamic"):
        return []
    imports = "AutoTokenizer, BertConfig, BertForMaskedLM"
    static = facts["masking"] == "static"
    if not static:
        imports += ", DataCollatorForLanguageModeling"
    return [
        "import torch",
        "from datasets import load_dataset",
        f"from transformers import {imports}",
        "",
        f'folder = "{FOLDER}"',
        f'examples = load_dataset(folder, split="{content.splits[0]}")',
        'tokenizer = AutoTokenizer.from_pretrained(f"{folder}/tokenizer")',
        *(_static_masks() if static else _drawn_masks(content)),
        "sizes = dict(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512)",
        f"places = {max(int(facts.get('length', 0)), 512)}",
        "model = BertForMaskedLM(BertConfig(vocab_size=len(tokenizer), max_position_embeddings=places, **sizes))",
        "optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)",
        "loader = torch.utils.data.DataLoader(examples, batch_size=16, shuffle=True, collate_fn=collate)",
        "for step, batch in zip(range(20), loader):",
        "    loss = model(**batch).loss",
        "    loss.backward()",
        "    optimizer.step()",
        "    optimizer.zero_grad()",
        "    print(step, loss.item())",
    ]


def _static_masks() -> list[str]:
    """Batches with the masks that the rows bring."""
    return [
        "",
        "",
        "def collate(rows):",
        '    batch = tokenizer.pad([{"input_ids": row["input_ids"]} for row in rows], return_tensors="pt")',
        '    batch["labels"] = torch.full_like(batch["input_ids"], -100)',
        "    for number, row in enumerate(rows):",
        '        masked = torch.tensor(row["mask_positions"], dtype=torch.long)',
        '        batch["labels"][number, masked] = batch["input_ids"][number, masked]',
        '        batch["input_ids"][number, masked] = torch.tensor(row["mask_ids"], dtype=torch.long)',
        "    return batch",
        "",
        "",
    ]


def _drawn_masks(content: Exported) -> list[str]:
    """Batches whose masks the collator of transformers draws, token by token."""
    masking = content.provenance.manifest.settings.get("masking", {})
    return [
        f"mask = DataCollatorForLanguageModeling(tokenizer, mlm_probability={float(masking.get('rate', 0.15))})",
        "",
        "",
        "def collate(rows):",
        '    return mask([{"input_ids": row["input_ids"]} for row in rows])',
        "",
        "",
    ]
