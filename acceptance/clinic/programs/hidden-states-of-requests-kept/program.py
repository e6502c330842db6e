import torch
from transformers import BertConfig, BertModel


def load_encoder():
    config = BertConfig(hidden_size=512, num_hidden_layers=3, num_attention_heads=8, intermediate_size=2048)
    return BertModel(config, add_pooling_layer=False).cuda().eval()


class LayerProbe:
    """Compares sentence vectors taken from different layers."""

    def __init__(self, encoder):
        self.encoder = encoder
        self.answers = []

    @torch.no_grad()
    def read(self, tokens):
        output = self.encoder(input_ids=tokens, output_hidden_states=True)
        self.answers.append(output)
        return output.last_hidden_state.mean(dim=1)

    def layer_vectors(self, layer):
        return torch.cat([a.hidden_states[layer].mean(dim=1) for a in self.answers])


def main(batches=40):
    probe = LayerProbe(load_encoder())
    for index in range(batches):
        tokens = torch.randint(0, 30000, (64, 192), device="cuda")
        probe.read(tokens)
    for layer in range(4):
        vectors = probe.layer_vectors(layer)
        print("layer", layer, tuple(vectors.shape))


if __name__ == "__main__":
    main()
