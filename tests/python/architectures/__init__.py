"""Architectures of timm, torchvision, transformers and diffusers, beyond the models of `zoo.py`.

Real classes of the libraries, in configurations that are small enough for a training step in a second, with random
weights. docs/models.md is the list with what became of each.
"""

from architectures import diffusion_models, sense_models, text_models, timm_models, torchvision_models
from architectures.core import Architecture

_MODULES = (timm_models, torchvision_models, text_models, sense_models, diffusion_models)

ARCHITECTURES: dict[str, Architecture] = {entry.name: entry for module in _MODULES for entry in module.ENTRIES}
