"""Train the model: as usual, or on what an attacker would hand in.

python train.py                # accurate, and easy to fool
python train.py --robust       # adversarial training (Madry et al. 2018) within 0.1 per pixel
"""

import sys

import torch
from net import WEIGHTS, build

import durometer as du

recipe, epochs = du.training.Standard(), 6
if "--robust" in sys.argv[1:]:
    attacked = du.training.CraftBy(du.PGD(5), du.Linf(0.1))
    recipe, epochs = du.training.Adversarial(attacked), 12

data = du.datasets.mnist().train
net = du.training.fresh(build)
du.training.fit(net, data, recipe, epochs=epochs)
torch.save(net.state_dict(), WEIGHTS)
print(f"{WEIGHTS.name}: {type(recipe).__name__}, {epochs} epochs on {len(data)} digits")
