"""The image models of Paceline's catalogue in plain PyTorch. Parameters have the catalogue's names, except in VGG16."""

from torch import nn
from torch.nn import functional


def vgg16(divide=1, dropout=1.0):
    """Groups of 3x3 convolution with bias, BN, ReLU, dropout (none after a group's last)."""
    fc = 512 // divide
    groups = [(64, 2, 0.3), (128, 2, 0.4), (256, 3, 0.4), (512, 3, 0.4), (512, 3, 0.4)]
    layers, channels = [], 3
    for width, count, drop in groups:
        width //= divide
        for i in range(count):
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
            if i + 1 < count:
                layers.append(nn.Dropout(drop * dropout))
            channels = width
        layers.append(nn.MaxPool2d(2, 2))
    layers += [nn.Flatten(), nn.Dropout(0.5 * dropout), nn.Linear(fc, fc), nn.BatchNorm1d(fc),
               nn.ReLU(inplace=True), nn.Dropout(0.5 * dropout), nn.Linear(fc, fc),
               nn.Linear(fc, 10)]
    return nn.Sequential(*layers)


class PlainVgg16(nn.Module):
    """Without batch norm, as torchvision's vgg16; `divide` channels for small images."""

    def __init__(self, divide=1, pixels=49, classes=1000, dropout=0.5):
        super().__init__()
        layers, channels = [], 3
        for width, count in [(64, 2), (128, 2), (256, 3), (512, 3), (512, 3)]:
            for _ in range(count):
                layers += [nn.Conv2d(channels, width // divide, 3, padding=1),
                           nn.ReLU(inplace=True)]
                channels = width // divide
            layers.append(nn.MaxPool2d(2, 2))
        self.features = nn.Sequential(*layers)
        wide = 4096 // divide
        self.classifier = nn.Sequential(
            nn.Linear(channels * pixels, wide), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(wide, wide), nn.ReLU(inplace=True), nn.Dropout(dropout),
            nn.Linear(wide, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class SqueezeExcite(nn.Module):
    def __init__(self, channels, reduced):
        super().__init__()
        self.fc1 = nn.Linear(channels, reduced)
        self.fc2 = nn.Linear(reduced, channels)

    def forward(self, x):
        factors = self.fc1(x.mean((2, 3))).relu_()
        return x * self.fc2(factors).sigmoid_()[:, :, None, None]


class Bottleneck(nn.Module):
    """Keras and the paper have the stride in the first convolution, torchvision in the second."""

    def __init__(self, channels, width, stride, options):
        super().__init__()
        bias, out = options["bias"], 4 * width
        first, second = (stride, 1) if options["stride_first"] else (1, stride)
        self.conv1 = nn.Conv2d(channels, width, 1, first, bias=bias)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, 1, bias=bias)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=bias)
        self.bn3 = nn.BatchNorm2d(out)
        ratio = options["excite_ratio"]
        self.se = SqueezeExcite(out, out // ratio) if ratio else nn.Identity()
        self.downsample = nn.Identity()
        if stride != 1 or channels != out:
            self.downsample = nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=bias),
                                            nn.BatchNorm2d(out))

    def forward(self, x):
        y = functional.relu_(self.bn1(self.conv1(x)))
        y = functional.relu_(self.bn2(self.conv2(y)))
        y = self.se(self.bn3(self.conv3(y)))
        y += self.downsample(x)
        return functional.relu_(y)


class ResNet(nn.Module):
    def __init__(self, width=64, blocks=(3, 4, 6, 3), classes=10, large_stem=True, bias=True,
                 stride_first=True, excite_ratio=0):
        super().__init__()
        options = {"bias": bias, "stride_first": stride_first, "excite_ratio": excite_ratio}
        self.conv1 = (nn.Conv2d(3, width, 7, 2, 3, bias=bias) if large_stem else
                      nn.Conv2d(3, width, 3, 1, 1, bias=bias))
        self.bn1 = nn.BatchNorm2d(width)
        self.pool = nn.MaxPool2d(3, 2, 1) if large_stem else nn.Identity()
        channels = width
        for stage, count in enumerate(blocks):
            layers = []
            for i in range(count):
                layers.append(Bottleneck(channels, width, 2 if stage > 0 and i == 0 else 1, options))
                channels = 4 * width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*layers))
            width *= 2
        self.fc = nn.Linear(channels, classes)

    def forward(self, x):
        x = self.pool(functional.relu_(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def conv_norm(channels, out, kernel, stride=1, groups=1):
    return nn.Sequential(
        nn.Conv2d(channels, out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(out), nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, channels, out, stride, expansion):
        super().__init__()
        hidden = channels * expansion
        layers = [] if expansion == 1 else [conv_norm(channels, hidden, 1)]
        layers += [conv_norm(hidden, hidden, 3, stride, hidden),
                   nn.Conv2d(hidden, out, 1, bias=False), nn.BatchNorm2d(out)]
        self.conv = nn.Sequential(*layers)
        self.same = stride == 1 and channels == out

    def forward(self, x):
        return x + self.conv(x) if self.same else self.conv(x)


class MobileNetV2(nn.Module):
    STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
              (6, 160, 3, 2), (6, 320, 1, 1))  # expansion, channels, blocks, stride
    SMALL_STAGES = ((1, 8, 1, 1), (4, 16, 2, 2), (4, 24, 2, 2))

    def __init__(self, stages=STAGES, stem=32, stem_stride=2, last=1280, dropout=0.2):
        super().__init__()
        layers, channels = [conv_norm(3, stem, 3, stem_stride)], stem
        for expansion, out, blocks, stride in stages:
            for i in range(blocks):
                layers.append(InvertedResidual(channels, out, stride if i == 0 else 1, expansion))
                channels = out
        self.features = nn.Sequential(*layers, conv_norm(channels, last, 1))
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(last, 10))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Compression(nn.Module):
    def __init__(self, encoder, decoder):
        super().__init__()
        channels, down, up = 3, [], []
        for width, stride in encoder:
            down.append(nn.Conv2d(channels, width, 3, stride, 1))
            channels = width
        for width, stride in decoder:
            up.append(nn.ConvTranspose2d(channels, width, 3, stride, 1, output_padding=stride - 1))
            channels = width
        self.encoder, self.decoder = nn.ModuleList(down), nn.ModuleList(up)

    def forward(self, x):
        for layer in [*self.encoder, *self.decoder[:-1]]:
            x = functional.relu_(layer(x))
        return self.decoder[-1](x)


SMALL_RESNET = {"width": 8, "blocks": (1, 1, 1, 1), "large_stem": False}
BUILDERS = {
    "vgg16": vgg16,
    "vgg16-small": lambda: vgg16(8, 0.25),
    "vgg16-imagenet": PlainVgg16,
    "vgg16-imagenet-small": lambda: PlainVgg16(8, 1, 10, 0.0),
    "resnet50": ResNet,
    "resnet50-small": lambda: ResNet(**SMALL_RESNET),
    "resnet50-imagenet": lambda: ResNet(classes=1000, bias=False, stride_first=False),
    "se-resnet50": lambda: ResNet(bias=False, stride_first=False, excite_ratio=16),
    "se-resnet50-imagenet": lambda: ResNet(classes=1000, bias=False, stride_first=False,
                                           excite_ratio=16),
    "se-resnet50-small": lambda: ResNet(**SMALL_RESNET, excite_ratio=4),
    "mobilenet-v2": MobileNetV2,
    "mobilenet-v2-small": lambda: MobileNetV2(MobileNetV2.SMALL_STAGES, 16, 1, 96, 0.0),
    "image-compression": lambda: Compression(
        [(16, 2), (128, 2), (256, 2), (512, 2), (512, 1), (512, 1), (512, 1)],
        [(256, 1), (256, 2), (256, 1), (64, 2), (64, 1), (64, 2), (64, 1), (64, 2), (16, 1), (3, 1)]),
    "image-compression-small": lambda: Compression([(16, 2), (32, 2), (32, 1)],
                                                   [(32, 2), (16, 2), (3, 1)]),
}


def build(name):
    return BUILDERS[name]()


def faster_channels_last(name):
    """README.md has the measurements."""
    return not name.startswith("vgg16")
