"""Functions of flash-linear-attention on std.ops, which models of transformers call, too.

    from rec_lang.transformers.linear_attention import chunk_gated_delta_rule
    y, state = chunk_gated_delta_rule(q, k, v, g, beta, output_final_state=True, use_qk_l2norm_in_kernel=True)

Tensors are as flash-linear-attention has them: tokens [batch, time, heads, ..], states [sequences, heads, K, V], or V before K
with state_v_first. Operands of 16 bits are widened, for 8 bits are too few for a decay. Results have the type of the queries,
states float32. Words that only choose among kernels of a GPU (chunk_size, safe_gate, ..) are taken and change nothing.
"""
import torch
import torch.nn.functional as F

from .kernels import element_type, kernel, state_type
from .registry import Unsupported, function


def _run(file, tokens, params, initial_state, cu_seqlens, output_final_state, state_v_first=False, normalize=False, grouped=False):
    """Calls std.ops.FILE. The first token has the keys of all heads, "v" the values. `grouped`: several heads of values may share
    one of keys, and all tokens but q and k have those of values."""
    first, values = next(iter(tokens.values())), tokens["v"]
    heads, dtype = first.shape[2], state_type(element_type(*tokens.values()))
    run = kernel(file, file + ("_normalized" if normalize else ""), dtype, K=first.shape[-1], V=values.shape[-1])
    if grouped:
        if values.shape[2] % heads:
            raise ValueError(f"{file}: expected heads of values that {heads} heads of keys divide, found {values.shape[2]}")
        tokens = {name: x if name in ("q", "k") else x.unflatten(2, (heads, -1)) for name, x in tokens.items()}
    if initial_state is not None:
        initial_state = initial_state.to(dtype)
        initial_state = initial_state.transpose(-1, -2) if state_v_first else initial_state
        initial_state = initial_state.unflatten(1, (heads, -1)) if grouped else initial_state
    y, state = run(**{name: x.to(dtype) for name, x in tokens.items()}, **{name: x.to(dtype) for name, x in params.items()},
                   h0_S=initial_state, cu_seqlens=_offsets(cu_seqlens))
    y, state = (y.flatten(2, 3), state.flatten(1, 2)) if grouped else (y, state)
    state = state.transpose(-1, -2).contiguous() if state_v_first else state
    return y.to(first.dtype), state if output_final_state else None


def _offsets(cu_seqlens):
    return None if cu_seqlens is None else cu_seqlens.to(torch.int32)


def _scale(scale, keys):
    return {"scale": torch.tensor(float(keys.shape[-1] ** -0.5 if scale is None else scale), dtype=torch.float64)}


def _refuse(**words):
    for word, value in words.items():
        if value is not None and value is not False:
            raise Unsupported(f"expected no {word}, found {type(value).__name__ if isinstance(value, torch.Tensor) else value}")


# ---- the gated delta rule and KDA ----------------------------------------------------------------------------------------


def _step_sizes(beta, logits, negative):
    return beta if not logits else (2 if negative else 1) * beta.float().sigmoid()


def _decays(g, raw, A_log, dt_bias, lower_bound):
    """Logarithms of decays, from what a projection gave where it is `raw`. Parameters are of heads, or of heads and keys."""
    if not raw:
        return g
    axes = (g.shape[2], -1) if g.dim() == 4 else (-1,)
    g = g.double() if g.dtype is torch.float64 else g.float()
    g = g if dt_bias is None else g + dt_bias.reshape(axes).to(g.dtype)
    rate = 1 if A_log is None else A_log.reshape(axes).to(g.dtype).exp()
    return -rate * F.softplus(g) if lower_bound is None else lower_bound * torch.sigmoid(rate * g)


def chunk_gated_delta_rule(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False,
                           use_qk_l2norm_in_kernel=False, use_gate_in_kernel=False, A_log=None, dt_bias=None,
                           use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False, state_v_first=False, cu_seqlens=None,
                           cp_context=None, **ignored):
    """q, k [B, T, H, K], v [B, T, HV, V], g (logarithms of decays), beta [B, T, HV], states [N, HV, K, V]."""
    _refuse(cp_context=cp_context)
    g = _decays(g, use_gate_in_kernel, A_log, dt_bias, None)
    beta = _step_sizes(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    return _run("gated_delta_rule", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, _scale(scale, k), initial_state, cu_seqlens,
                output_final_state, state_v_first, use_qk_l2norm_in_kernel, grouped=True)


def fused_recurrent_gated_delta_rule(q, k, v, g=None, gk=None, gv=None, beta=None, scale=None, **settings):
    """chunk_gated_delta_rule, whose decays may also be those of keys (gk)."""
    _refuse(gv=gv)
    beta = torch.ones_like(v[..., 0]) if beta is None else beta
    if gk is not None:
        return chunk_kda(q, k, v, gk if g is None else gk + g.unsqueeze(-1), beta, scale, **settings)
    return chunk_gated_delta_rule(q, k, v, torch.zeros_like(beta) if g is None else g, beta, scale, **settings)


def chunk_kda(q, k, v, g, beta, scale=None, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=False,
              use_gate_in_kernel=False, A_log=None, dt_bias=None, use_beta_sigmoid_in_kernel=False, allow_neg_eigval=False,
              lower_bound=None, state_v_first=False, cu_seqlens=None, cp_context=None, return_intermediate_states=False, **ignored):
    """q, k [B, T, H, K], v [B, T, HV, V], g (logarithms of decays) [B, T, HV, K], beta [B, T, HV], states [N, HV, K, V]."""
    _refuse(cp_context=cp_context, return_intermediate_states=return_intermediate_states)
    g = _decays(g, use_gate_in_kernel, A_log, dt_bias, lower_bound)
    beta = _step_sizes(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
    return _run("kda", {"q": q, "k": k, "v": v, "g": g, "beta": beta}, _scale(scale, k), initial_state, cu_seqlens,
                output_final_state, state_v_first, use_qk_l2norm_in_kernel, grouped=True)


def fused_recurrent_kda(q, k, v, g, beta, A_log=None, dt_bias=None, scale=None, **settings):
    return chunk_kda(q, k, v, g, beta, scale, A_log=A_log, dt_bias=dt_bias, **settings)


def chunk_delta_rule(q, k, v, beta=None, scale=None, initial_state=None, output_final_state=False,
                     use_qk_l2norm_in_kernel=False, cu_seqlens=None, **ignored):
    """q, k [B, T, H, K], v [B, T, H, V], beta [B, T, H], states [N, H, K, V]."""
    beta = torch.ones_like(q[..., 0]) if beta is None else beta
    return _run("delta_rule", {"q": q, "k": k, "v": v, "beta": beta}, _scale(scale, k), initial_state, cu_seqlens,
                output_final_state, normalize=use_qk_l2norm_in_kernel)


fused_recurrent_delta_rule = chunk_delta_rule

# ---- gated linear attention ----------------------------------------------------------------------------------------------


def chunk_gla(q, k, v, g, scale=None, initial_state=None, output_final_state=False, state_v_first=False, cu_seqlens=None,
              **ignored):
    """q, k, g (logarithms of decays) [B, T, H, K], v [B, T, H, V], states [N, H, K, V]."""
    return _run("gla", {"q": q, "k": k, "v": v, "g": g}, _scale(scale, k), initial_state, cu_seqlens, output_final_state,
                state_v_first)


def fused_recurrent_gla(q, k, v, gk=None, gv=None, scale=None, initial_state=None, output_final_state=False, reverse=False,
                        state_v_first=False, cu_seqlens=None, **ignored):
    _refuse(gv=gv, reverse=reverse)
    return chunk_gla(q, k, v, torch.zeros_like(k) if gk is None else gk, scale, initial_state, output_final_state, state_v_first,
                     cu_seqlens)


def chunk_simple_gla(q, k, v, g=None, g_gamma=None, scale=None, initial_state=None, output_final_state=False, reverse=False,
                     state_v_first=False, cu_seqlens=None, **ignored):
    """q, k [B, T, H, K], v [B, T, H, V], g (logarithms of decays) [B, T, H] or g_gamma [H], states [N, H, K, V]."""
    _refuse(reverse=reverse)
    decays = torch.zeros_like(q[..., 0]) if g is None else g
    decays = decays if g_gamma is None else decays + g_gamma
    return _run("simple_gla", {"q": q, "k": k, "v": v, "g": decays}, _scale(scale, k), initial_state, cu_seqlens,
                output_final_state, state_v_first)


fused_recurrent_simple_gla = chunk_simple_gla

# ---- RWKV ----------------------------------------------------------------------------------------------------------------


def chunk_rwkv6(r, k, v, w, u, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None, reverse=False, **ignored):
    """r, k, w (logarithms of decays) [B, T, H, K], v [B, T, H, V], u [H, K], states [N, H, K, V]."""
    _refuse(reverse=reverse)
    return _run("rwkv6", {"r": r, "k": k, "v": v, "w": w}, {"u": u, **_scale(scale, k)}, initial_state, cu_seqlens,
                output_final_state)


fused_recurrent_rwkv6 = chunk_rwkv6


def chunk_rwkv7(r, w, k, v, a, b, scale=1.0, initial_state=None, output_final_state=False, cu_seqlens=None, cp_context=None,
                **ignored):
    """r, w (logarithms of decays), k, a, b [B, T, H, K], v [B, T, H, V], states [N, H, K, V]."""
    _refuse(cp_context=cp_context)
    return _run("rwkv7", {"r": r, "w": w, "k": k, "v": v, "a": a, "b": b}, _scale(scale, k), initial_state, cu_seqlens,
                output_final_state)


def fused_recurrent_rwkv7(r, w, k, v, a, b, scale=None, initial_state=None, output_final_state=True, cu_seqlens=None):
    return chunk_rwkv7(r, w, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens)


def fused_mul_recurrent_rwkv7(r, w, k, v, kk, a, scale=1.0, initial_state=None, output_final_state=False, reverse=False,
                              cu_seqlens=None):
    """chunk_rwkv7 with a = -kk and b = kk a."""
    _refuse(reverse=reverse)
    return chunk_rwkv7(r, w, k, v, -kk, kk * a, scale, initial_state, output_final_state, cu_seqlens)


def chunk_dplr_delta_rule(q, k, v, a, b, gk, scale=None, initial_state=None, output_final_state=False, cu_seqlens=None,
                          cp_context=None, **ignored):
    """RWKV-7's operator by its general name: a transition that is diagonal plus low rank."""
    return chunk_rwkv7(q, gk, k, v, a, b, scale, initial_state, output_final_state, cu_seqlens, cp_context)


# ---- HGRN ----------------------------------------------------------------------------------------------------------------


def chunk_hgrn(x, g, initial_state=None, output_final_state=False, cu_seqlens=None, **ignored):
    """x, g (logarithms of decays) [B, T, D], states [N, D]."""
    dtype = state_type(element_type(x, g))
    y, state = kernel("hgrn", "hgrn", dtype)(x.to(dtype), g.to(dtype), None if initial_state is None else initial_state.to(dtype),
                                             _offsets(cu_seqlens))
    return y.to(x.dtype), state if output_final_state else None


fused_recurrent_hgrn = chunk_hgrn

# ---- transformers --------------------------------------------------------------------------------------------------------
# Its modeling files name the functions that stand in for those of flash-linear-attention.

function("torch_chunk_gated_delta_rule")(chunk_gated_delta_rule)
function("torch_recurrent_gated_delta_rule")(fused_recurrent_gated_delta_rule)
function("chunk_kimi_delta_attention")(chunk_kda)
function("recurrent_kimi_delta_attention")(fused_recurrent_kda)
