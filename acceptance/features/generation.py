"""transformers: models with random weights, generation with a key-value cache, and the Trainer."""

import torch

from cases import Held, case

LAYERS, HEADS, WIDTH, VOCABULARY = 4, 8, 256, 1000


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=WIDTH,
        intermediate_size=2 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS // 2,
        vocab_size=VOCABULARY,
        pad_token_id=0,
    )
    return LlamaForCausalLM(config)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(GPT2Config(n_layer=LAYERS, n_head=HEADS, n_embd=WIDTH, vocab_size=VOCABULARY, pad_token_id=0))


def prompt():
    return torch.randint(1, VOCABULARY, (2, 16), device="cuda")


@case(needs=["transformers"])
def generate_goes_to_its_longest():
    for model in (llama().cuda().half().eval(), gpt2().cuda().eval()):
        for options in ({"do_sample": False}, {"do_sample": True, "top_k": 5}):
            ids = model.generate(prompt(), max_new_tokens=24, **options)
            assert ids.shape == (2, 40), (options, ids.shape)
            # A second call starts with a new cache.
            assert model.generate(prompt(), max_new_tokens=8, **options).shape == (2, 24)


@case(needs=["transformers"])
def generate_with_beams():
    model = llama().cuda().half().eval()
    ids = model.generate(prompt(), max_new_tokens=24, num_beams=3, return_dict_in_generate=True, output_scores=True)
    assert len(ids.scores) == 24, len(ids.scores)


@case(needs=["transformers"])
def a_cache_takes_what_its_keys_and_values_are():
    model = llama().cuda().half().eval()
    held = Held()
    out = model.generate(prompt(), max_new_tokens=33, do_sample=False, return_dict_in_generate=True)
    cache = [tensor for layer in out.past_key_values.layers for tensor in (layer.keys, layer.values)]
    # The last token is never an input. Half of the heads have their own keys and values. A number takes 2 bytes.
    assert len(cache) == 2 * LAYERS
    assert all(tensor.shape == (2, HEADS // 2, 16 + 32, WIDTH // HEADS) for tensor in cache), cache[0].shape
    assert held.more() >= sum(tensor.nbytes for tensor in cache) == 2 * LAYERS * 2 * WIDTH // 2 * 48 * 2


@case(needs=["transformers"])
def generate_with_a_static_cache():
    model = llama().cuda().half().eval()
    ids = model.generate(prompt(), max_new_tokens=8, do_sample=False, cache_implementation="static", disable_compile=True)
    assert ids.shape == (2, 24)


@case(needs=["transformers"])
def a_pipeline_streams():
    from transformers import TextStreamer

    class Count(TextStreamer):
        def __init__(self):
            self.count = 0

        def put(self, value):
            self.count += 1

        def end(self):
            pass

    streamer = Count()
    gpt2().cuda().generate(prompt()[:1], max_new_tokens=8, do_sample=False, streamer=streamer)
    # The prompt and each new token are one call each.
    assert streamer.count == 9, streamer.count


@case(needs=["transformers", "accelerate"])
def the_trainer():
    import tempfile

    from transformers import Trainer, TrainingArguments

    rows = [{"input_ids": row, "labels": row} for row in torch.randint(1, VOCABULARY, (16, 32))]
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            max_steps=2,
            bf16=True,
            gradient_checkpointing=True,
            save_steps=1,
            logging_steps=1,
            report_to=[],
            disable_tqdm=True,
            dataloader_num_workers=1,
        )
        trainer = Trainer(llama(), arguments, train_dataset=rows, eval_dataset=rows[:4])
        assert trainer.train().global_step == 2
        assert "eval_loss" in trainer.evaluate()
        assert next(trainer.model.parameters()).is_cuda
