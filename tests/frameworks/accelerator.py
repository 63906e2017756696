"""Where there is no GPU, torch 2.6 refuses to tell which accelerator there is, as transformers 5.19 asks when a model is imported. Later
versions answer None: importing this file makes 2.6 do so, too.
"""
import torch

_asked = torch.accelerator.current_accelerator


def _answered(*words):
    try:
        return _asked(*words)
    except RuntimeError:
        return None


torch.accelerator.current_accelerator = _answered
