"""Allocate on the GPU without `torch.cuda`: `torch.jit.load` initializes GPUs in C++. A second process saves the model, unrecorded."""

import os
import subprocess
import sys
import tempfile

import torch

if len(sys.argv) > 1:
    torch.jit.save(torch.jit.script(torch.nn.Linear(1024, 1024).cuda()), sys.argv[1])
else:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.pt")
        unrecorded = {name: value for name, value in os.environ.items() if name != "VRAMSCOPE_RECORDINGS"}
        subprocess.run([sys.executable, __file__, path], env=unrecorded, check=True)
        model = torch.jit.load(path)
    torch.zeros(1, device="cuda")
