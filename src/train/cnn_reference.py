#!/usr/bin/python3
"""Loss and gradients of a convolutional model by PyTorch, for layer_net_test.cc.

usage: cnn_reference.py MODEL FOLDER

FOLDER/tensors.txt names the tensors of FOLDER/inputs.bin (32-bit floats, one after the other), a line
"NAME SIZE..." each: all parameters, then "images" and "labels". Prints the loss of one training pass without
dropout, summed over samples; writes the gradients to FOLDER/gradients.bin in the order of the parameters. Computes in
64 bits: what differs then is the rounding of one side only.
"""

import os
import sys

try:
    import torch
except ImportError as error:
    print(f"cnn_reference: PyTorch is not installed: {error}", file=sys.stderr)
    sys.exit(3)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "bench", "peers"))
import pytorch_image_models  # noqa: E402


def read_tensors(folder):
    values = torch.from_file(os.path.join(folder, "inputs.bin"),
                             size=os.path.getsize(os.path.join(folder, "inputs.bin")) // 4)
    tensors, start = {}, 0
    with open(os.path.join(folder, "tensors.txt"), encoding="utf-8") as lines:
        for line in lines:
            name, *sizes = line.split()
            shape = [int(size) for size in sizes]
            count = torch.Size(shape).numel()
            tensors[name] = values[start:start + count].view(shape).clone()
            start += count
    return tensors


def main():
    name, folder = sys.argv[1:]
    torch.set_num_threads(1)
    tensors = read_tensors(folder)
    images, labels = tensors.pop("images"), tensors.pop("labels").long()
    images = images.double()
    model = pytorch_image_models.build(name).double().train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    parameters = dict(model.named_parameters())
    if set(parameters) != set(tensors):
        print(f"cnn_reference: other parameters: {set(parameters) ^ set(tensors)}", file=sys.stderr)
        return 1
    with torch.no_grad():
        for key, parameter in parameters.items():
            parameter.copy_(tensors[key])
    outputs = model(images)
    if outputs.dim() == 4:
        loss = torch.nn.functional.mse_loss(outputs, images, reduction="sum") / images[0].numel()
    else:
        loss = torch.nn.functional.cross_entropy(outputs, labels, reduction="sum")
    loss.backward()
    with open(os.path.join(folder, "gradients.bin"), "wb") as out:
        for key in tensors:
            out.write(parameters[key].grad.float().contiguous().numpy().tobytes())
    print(f"{loss.item():.9g}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
