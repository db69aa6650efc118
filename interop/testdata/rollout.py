"""Rollout-shaped bundles for the tests and the demo: rows of ragged token arrays beside per-row scalars, texts and metadata."""

import numpy as np

# How the client is told to store each field: codec, section, and for plain arrays the element type.
LAYOUT = {
    "tokens": ("typed_ragged", "non_tensor_batch", None),
    "loss_masks": ("typed_ragged", "non_tensor_batch", None),
    "rollout_log_probs": ("typed_ragged", "non_tensor_batch", None),
    "response_lengths": ("ndarray", "non_tensor_batch", "int64"),
    "sample_indices": ("ndarray", "non_tensor_batch", "int64"),
    "truncated": ("ndarray", "non_tensor_batch", "int64"),
    "rewards": ("ndarray", "non_tensor_batch", "float32"),
    "prompt": ("msgpack_ragged", "non_tensor_batch", None),
    "metadata": ("msgpack_ragged", "non_tensor_batch", None),
    "total_lengths": ("auto", "meta_info", None),
    "raw_reward": ("auto", "meta_info", None),
}
RAGGED = [name for name, (codec, _, _) in LAYOUT.items() if codec == "typed_ragged"]

LANGUAGES = ("en", "de", "\u4e2d\u6587")


def make(rows, seed, longest=700):
    """A bundle that depends on nothing but its arguments."""
    dice = np.random.default_rng(1_000_003 * seed + rows)
    prompts = dice.integers(3, 90, rows)
    answers = dice.integers(1, longest, rows)
    data = {name: [] for name in LAYOUT}
    for i in range(rows):
        asked, answered = int(prompts[i]), int(answers[i])
        data["tokens"].append(dice.integers(0, 1 << 17, asked + answered, dtype=np.int32))
        data["loss_masks"].append((dice.integers(0, 10, answered) > 0).astype(np.int32))
        data["rollout_log_probs"].append(np.log(dice.random(answered, dtype=np.float32) + np.float32(1e-6)))
        data["response_lengths"].append(answered)
        data["sample_indices"].append(seed * 10_000 + i)
        data["truncated"].append(int(answered > longest * 0.9))
        data["rewards"].append(float(np.float32(dice.normal())))
        data["prompt"].append(f"Prompt {i} of rollout {seed}: \u00fcber {asked} tokens \u2713")
        data["metadata"].append({"row": i, "lang": LANGUAGES[i % 3], "score": i / 8, "tool": None, "turns": [1, 2, i]})
        data["total_lengths"].append(asked + answered)
        data["raw_reward"].append(float(dice.normal()))
    return data


def schemas():
    from mooncake.structured_object_store import FieldSchema

    out = {}
    for name, (codec, section, dtype) in LAYOUT.items():
        notes = {"section": section}
        if dtype:
            notes["dtype"] = dtype
        out[name] = FieldSchema(codec, False, notes)
    return out


def ragged_bytes(data):
    return sum(row.nbytes for name in RAGGED for row in data.get(name, ()))


def difference(got, want):
    """The first place where two bundles differ, in words; empty when there is none."""
    if set(got) != set(want):
        return f"fields {sorted(got)} instead of {sorted(want)}"
    for name, rows in want.items():
        if len(got[name]) != len(rows):
            return f"{name} has {len(got[name])} rows instead of {len(rows)}"
        for i, row in enumerate(rows):
            if not same(name, got[name][i], row):
                return f"{name}[{i}] is {got[name][i]!r:.120} instead of {row!r:.120}"
    return ""


def same(name, got, want):
    if name in RAGGED:
        # 0.3.12 gives lists where later releases give arrays; element types must agree wherever there is one.
        return getattr(got, "dtype", want.dtype) == want.dtype and np.array_equal(np.asarray(got, want.dtype), want)
    if hasattr(got, "tolist"):
        got = got.tolist()
    if LAYOUT[name][2] == "float32":
        return np.float32(got) == np.float32(want)
    return got == want
