"""PEFT: low-rank adapters on frozen weights."""

import torch

from cases import Held, bytes_of, case
from generation import VOCABULARY, llama


@case(needs=["transformers", "peft"])
def lora_trains_its_adapters_alone():
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")).cuda()
    adapters = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(adapters, foreach=False)
    held = Held()
    for _ in range(2):
        ids = torch.randint(VOCABULARY, (2, 32), device="cuda")
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    del ids
    # Two steps retain the two moments of each adapter.
    assert held.more() == 2 * bytes_of(adapters), held.more()
    assert bytes_of(adapters) < 0.1 * bytes_of(model.parameters())


@case(needs=["transformers", "peft"])
def adapters_are_saved_merged_and_loaded():
    import tempfile

    from peft import LoraConfig, PeftModel, get_peft_model

    model = get_peft_model(llama(), LoraConfig(r=4, target_modules="all-linear")).cuda()
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = PeftModel.from_pretrained(llama().cuda(), folder)
        assert next(again.parameters()).is_cuda
        merged = again.merge_and_unload()
        assert not any("lora" in name for name, _ in merged.named_parameters())
