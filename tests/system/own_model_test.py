"""Models of one's own, as a user meets them: the example project built against an installed library, a TorchScript
file from Python, parameters written and read by Python. Usage: own_model_test.py BUILD_DIRECTORY"""
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest

BUILD = os.path.abspath(sys.argv.pop(1))
PACELINE = os.path.join(BUILD, "bin", "paceline")
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
UNCHANGED = ["--optimizer", "sgd", "--lr", "1e-30"]  # parameters stay as they are


def run(*command, expect=0):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != expect:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def train(folder, name, *arguments, program=PACELINE):
    done = run(program, "train", *arguments, "--run", os.path.join(folder, name), "--json", "--quiet")
    return json.loads(done.stdout.strip().splitlines()[-1])


def read_safetensors(path):
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
        data = file.read()
    header.pop("__metadata__", None)
    return {name: (entry, data[slice(*entry["data_offsets"])]) for name, entry in header.items()}


def to_torch(torch, tensors):
    return {name: torch.frombuffer(bytearray(raw), dtype=torch.float32).reshape(entry["shape"])
            for name, (entry, raw) in tensors.items()}


def catalogue_state(torch, name):
    """The state_dict of a model of the catalogue, made by PyTorch's modules and not by ours."""
    for folder in (("bench", "peers"), ("src", "train")):
        path = os.path.join(ROOT, *folder)
        if path not in sys.path:
            sys.path.insert(0, path)
    import pytorch_image_models
    import text_reference
    torch.manual_seed(5)
    if name in pytorch_image_models.BUILDERS:
        model = pytorch_image_models.build(name)
        if isinstance(model, torch.nn.Sequential):  # VGG16 with batch norm: in two parts, as torchvision has it
            layers = list(model)
            cut = [isinstance(layer, torch.nn.Flatten) for layer in layers].index(True)
            model = torch.nn.ModuleDict({"features": torch.nn.Sequential(*layers[:cut]),
                                         "classifier": torch.nn.Sequential(*layers[cut + 1:])})
        return model.state_dict()
    shapes = text_reference.bert_shapes if name.startswith("bert") else text_reference.transformer_shapes
    return {tensor: 0.05 * torch.randn(shape) for tensor, shape in shapes(text_reference.SIZES[name])}


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = tensor.contiguous().numpy().tobytes()
        header[name] = {"dtype": {"torch.float32": "F32", "torch.int64": "I64"}[str(tensor.dtype)],
                        "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


class ExampleProject(unittest.TestCase):
    """The folder examples/spirals, copied nowhere and built by nothing but its own CMakeLists.txt."""

    def test_builds_against_the_installed_library_and_trains_with_every_strategy(self):
        with tempfile.TemporaryDirectory() as folder:
            prefix, build = os.path.join(folder, "installed"), os.path.join(folder, "build")
            run("cmake", "--install", BUILD, "--prefix", prefix)
            run("cmake", "-G", "Ninja", "-S", os.path.join(ROOT, "examples", "spirals"), "-B", build,
                "-DCMAKE_BUILD_TYPE=Release", f"-DCMAKE_PREFIX_PATH={prefix}")
            run("ninja", "-C", build)
            spirals = os.path.join(build, "spirals")
            paceline = os.path.join(prefix, "bin", "paceline")
            fixed = ["spirals", "--epochs", "10", "--shards", "2", "--batch", "16", "--reproducible"]
            alone = train(folder, "alone", *fixed, program=spirals)
            self.assertGreater(alone["accuracy"], 0.95)
            own = [*fixed, "--worker-program", spirals, "--workers", "2"]
            self.assertEqual(train(folder, "two", *own, program=paceline)["params_hash"], alone["params_hash"])
            servers = train(folder, "ps", *own, "--strategy", "ps", program=paceline)
            self.assertEqual(servers["params_hash"], alone["params_hash"])
            smooth = train(folder, "smooth", *fixed, "--label-smoothing", "0.2", program=spirals)
            self.assertNotEqual(smooth["params_hash"], alone["params_hash"])
            mixed = train(folder, "mixed", *fixed, "--mixup", "0.2", program=spirals)
            self.assertNotEqual(mixed["params_hash"], alone["params_hash"])


class PythonModels(unittest.TestCase):
    def setUp(self):
        try:
            import torch
        except ImportError:
            self.skipTest("skipped: python3-torch is not installed")
        self.torch = torch
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def net(self):
        torch = self.torch
        torch.manual_seed(3)
        return torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
            torch.nn.Conv2d(8, 16, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2),
            torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(64, 10))

    def test_a_script_trains_with_every_strategy_and_goes_back_to_python(self):
        torch, model = self.torch, self.path("net.pt")
        torch.jit.script(self.net()).save(model)
        refused = run(PACELINE, "train", model, expect=2)
        self.assertIn("--trust-model-files", refused.stderr)
        fixed = [model, "--trust-model-files", "--steps", "60", "--shards", "2", "--batch", "32", "--reproducible",
                 "--lr", "0.1", "--eval-samples", "500"]
        alone = train(self.folder, "alone", *fixed)
        self.assertGreater(alone["accuracy"], 0.25)  # chance: 0.1
        two = [*fixed, "--workers", "2"]
        self.assertEqual(train(self.folder, "two", *two)["params_hash"], alone["params_hash"])
        servers = train(self.folder, "ps", *two, "--strategy", "ps", "--servers", "2")
        self.assertEqual(servers["params_hash"], alone["params_hash"])

        run(PACELINE, "export", self.path("alone"), "--out", self.path("files"))
        tensors = read_safetensors(self.path("files/model.safetensors"))
        missing = self.net().load_state_dict(to_torch(torch, tensors), strict=False)
        self.assertEqual(missing.unexpected_keys, [])
        self.assertEqual([key for key in missing.missing_keys if not key.endswith("num_batches_tracked")], [])
        again = run(PACELINE, "export", self.path("alone"), "--out", self.path("files"), expect=2)
        self.assertIn("there already", again.stderr)
        run(PACELINE, "export", self.path("ps"), "--out", self.path("of-servers"))
        of_servers = read_safetensors(self.path("of-servers/model.safetensors"))
        self.assertEqual({name: entry["shape"] for name, (entry, _) in of_servers.items()},
                         {name: entry["shape"] for name, (entry, _) in tensors.items()})

    def test_labels_of_a_script_are_smoothed(self):
        model = self.path("net.pt")
        self.torch.jit.script(self.net()).save(model)
        fixed = [model, "--trust-model-files", "--steps", "1", "--batch", "8", "--eval-samples", "10", *UNCHANGED]
        plain, smooth = (train(self.folder, f"smooth-{smoothing}", *fixed, "--label-smoothing", smoothing)
                         for smoothing in ("0", "0.5"))
        self.assertNotEqual(smooth["final_loss"], plain["final_loss"])
        self.assertEqual(smooth["eval_loss"], plain["eval_loss"])  # judged by the plain one
        refused = run(PACELINE, "train", *fixed, "--loss", "mse", "--label-smoothing", "0.1", expect=2)
        self.assertIn("--label-smoothing", refused.stderr)

    def test_the_best_checkpoint_is_exported(self):
        common = ["image-compression-small", "--batch", "2", "--eval-samples", "10", "--eval-every", "1", *UNCHANGED]
        kept = train(self.folder, "kept", *common, "--steps", "9", "--keep-best", "--patience", "2")
        # The loss stays the same, and equal is not better.
        self.assertEqual((kept["stopped_early"], kept["steps"], kept["best_step"]), (True, 3, 1))
        for flags, step in ((["--best"], 1), ([], 3)):
            done = run(PACELINE, "export", self.path("kept"), "--out", self.path(f"of-{step}"), *flags)
            self.assertIn(f"checkpoint of step {step}\n", done.stdout)
        self.assertEqual(read_safetensors(self.path("of-1/model.safetensors")).keys(),
                         read_safetensors(self.path("of-3/model.safetensors")).keys())
        train(self.folder, "not-kept", *common, "--steps", "1")
        refused = run(PACELINE, "export", self.path("not-kept"), "--out", self.path("none"), "--best", expect=2)
        self.assertIn("--keep-best", refused.stderr)

    def test_the_average_is_exported_too(self):
        train(self.folder, "averaged", "vgg16-small", "--steps", "2", "--batch", "2", "--eval-samples", "10",
              "--ema", "0.5")
        run(PACELINE, "export", self.path("averaged"), "--out", self.path("files"), "--ema")
        last = read_safetensors(self.path("files/model.safetensors"))
        average = read_safetensors(self.path("files/ema.safetensors"))
        self.assertEqual({name: entry for name, (entry, _) in average.items()},
                         {name: entry for name, (entry, _) in last.items()})
        self.assertNotEqual(average["classifier.1.weight"], last["classifier.1.weight"])

    def test_a_model_of_the_catalogue_starts_with_parameters_from_python(self):
        torch = self.torch
        train(self.folder, "first", "vgg16-small", "--steps", "1", "--batch", "2", "--eval-samples", "10")
        run(PACELINE, "export", self.path("first"), "--out", self.path("files"))
        tensors = read_safetensors(self.path("files/model.safetensors"))
        state = {name: torch.zeros(entry["shape"]) for name, (entry, _) in tensors.items()}
        state["features.1.num_batches_tracked"] = torch.zeros((), dtype=torch.int64)
        write_safetensors(self.path("zeros.safetensors"), state)
        common = ["vgg16-small", "--steps", "1", "--batch", "2", "--eval-samples", "10", *UNCHANGED]
        summary = train(self.folder, "second", *common, "--init-from", self.path("zeros.safetensors"))
        self.assertAlmostEqual(summary["final_loss"], 2.302585, places=4)  # ln 10: nothing is known
        del state["classifier.1.weight"]
        write_safetensors(self.path("short.safetensors"), state)
        refused = run(PACELINE, "train", *common, "--run", self.path("third"), "--init-from",
                      self.path("short.safetensors"), expect=12)
        self.assertIn("short.safetensors has no tensor classifier.1.weight", refused.stderr)

    def test_every_small_torch_model_starts_with_the_state_of_its_pytorch_module(self):
        torch = self.torch
        cards = json.loads(run(PACELINE, "models", "--json").stdout)["models"]
        families = {"image", "compression", "translation", "masked-language"}  # the others have tables
        names = [card["name"] for card in cards if card["name"].endswith("-small") and card["family"] in families]
        self.assertGreaterEqual(len(names), 8)
        for name in names:
            with self.subTest(model=name):
                state = catalogue_state(torch, name)
                statistics = [tensor for tensor in state if tensor.rpartition(".")[2].startswith("running_")]
                for tensor in statistics:
                    state[tensor] = torch.full_like(state[tensor], 1000.0)
                write_safetensors(self.path(f"{name}.safetensors"), state)
                train(self.folder, name, name, "--steps", "1", "--batch", "2", "--train-samples", "20",
                      "--eval-samples", "4", *UNCHANGED, "--init-from", self.path(f"{name}.safetensors"))
                run(PACELINE, "export", self.path(name), "--out", self.path(f"{name}-files"))
                after = to_torch(torch, read_safetensors(self.path(f"{name}-files/model.safetensors")))
                counters = {tensor for tensor in state if tensor.endswith("num_batches_tracked")}
                self.assertEqual(set(after), set(state) - counters)
                for tensor, value in after.items():
                    # Zeros move by the learning rate; statistics by a tenth of the way to those of the batch.
                    near = 150 if tensor in statistics else 1e-20
                    self.assertTrue(torch.allclose(value, state[tensor], rtol=0, atol=near), tensor)


if __name__ == "__main__":
    unittest.main()
