"""A model of --emit=torch against rec, which trained it: names and shapes of the weights, logits, steps, gradients, starts.

    torch_model.py FOLDER CHECKPOINT LOGITS TEXT

FOLDER has small.py; CHECKPOINT is what `rec train` wrote; LOGITS those of `rec generate --greedy` behind the prompt that TEXT
begins with; TEXT ends with what was generated. Prints FAILED lines and `N passed, N failed`.
"""
import sys

import torch
from safetensors.torch import load_file

from checks import check, finish

folder, checkpoint, logits, text = sys.argv[1:5]
sys.path.insert(0, folder)
import small  # noqa: E402

torch.set_num_threads(1)
torch.manual_seed(5)
model = small.Small()
weights, theirs = load_file(checkpoint), load_file(logits)["logits"].float()
ours = {name: tuple(value.shape) for name, value in model.state_dict().items()}
check("names and shapes", ours == {name: tuple(value.shape) for name, value in weights.items()})
A = model.get_parameter("layers.0.A_log").exp()
check("A starts from 1 to 16", bool(((A >= 1) & (A <= 16)).all()))
check("norms start as 1", bool((model.get_parameter("norm.weight") == 1).all()))
model.load_state_dict(weights)
with open(text, "rb") as file:
    tokens = torch.tensor(list(file.read()))[None]
found, states = model(tokens)
behind = found.detach()[0, -len(theirs) - 1:-1]
check(f"logits of rec, error {float((behind - theirs).abs().max()):.1e}", torch.allclose(behind, theirs, 1e-5, 2e-5))
check("bytes of rec", torch.equal(behind.argmax(-1), tokens[0, -len(theirs):]))

state, rows = None, []
with torch.no_grad():
    for t in range(tokens.shape[1]):
        one, state = model.step(tokens[:, t], state)
        rows.append(one)
check("token by token, logits", torch.allclose(torch.stack(rows, 1), found, 1e-4, 2e-5))
check("token by token, states", states.keys() == state.keys() and all(torch.allclose(state[n], states[n], 1e-4, 2e-5) for n in states))
first, middle = model(tokens[:, :7])
second, last = model(tokens[:, 7:], middle)
check("in two calls", torch.allclose(torch.cat([first, second], 1), found, 1e-4, 2e-5))
packed, _ = model(torch.cat([tokens[:, :9], tokens], 1), None, torch.tensor([0, 9, 9 + tokens.shape[1]], dtype=torch.int32))
check("packed", torch.allclose(packed[:, 9:], found, 1e-4, 2e-5) and torch.allclose(packed[:, :9], found[:, :9], 1e-4, 2e-5))


def loss(logits):
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


loss(found).backward()
check("every parameter has a gradient", all(x.grad is not None and bool(x.grad.any()) for x in model.parameters()))
gradient = {name: x.grad.clone() for name, x in model.named_parameters()}
direction = {name: torch.randn_like(x) * x.detach().abs().mean() for name, x in weights.items()}
slope = sum(float((gradient[name].double() * direction[name].double()).sum().detach()) for name in gradient)
sides = []
for sign in (-1, 1):
    with torch.no_grad():
        for name, x in model.named_parameters():
            x.copy_(weights[name] + sign * 5e-3 * direction[name])
        sides.append(float(loss(model(tokens)[0])))
check(f"slope {(sides[1] - sides[0]) / 1e-2} of {slope}", abs((sides[1] - sides[0]) / 1e-2 - slope) <= 2e-2 * abs(slope) + 1e-3)
model.load_state_dict(weights)
double = small.Small(dtype=torch.float64)
double.load_state_dict(weights)
wide, wide_states = double(tokens)
check("in f64", wide.dtype is torch.float64 and torch.allclose(wide.float(), found, 1e-4, 2e-5))
check("states in f64", all(x.dtype is torch.float64 for x in wide_states.values()))
check("brought to f32", small.Small(dtype=torch.float64).float()(tokens)[0].dtype is torch.float32)
compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
check("compiled", torch.allclose(compiled(tokens)[0], found, 1e-4, 2e-5))

finish()
