"""Rollout-shaped bundles for the tests and the demo: rows of ragged token arrays beside per-row scalars, texts and metadata.

A second shape is the rollout that yardsticks are about: three ragged fields with 3,386 bytes a sample, and numbers.
"""

import functools

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
# Fields that only the rollout of the yardsticks has.
MORE = {"partition": ("ndarray", "non_tensor_batch", "int64")}
YARDSTICK = "yardstick"
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


@functools.lru_cache(1)
def yardstick(rows, seed):
    """Eight samples of 256 new tokens, again and again, in arrays of their own. It is made once: whoever gets it only reads it."""
    dice = np.random.default_rng(seed)
    asked, answered = (70, 85, 66, 91, 78, 82, 75, 81), 256
    tokens = [dice.integers(0, 1 << 17, n + answered, dtype=np.int32) for n in asked]
    logs = [np.log(dice.random(answered, dtype=np.float32) + np.float32(1e-6)) for _ in asked]
    rewards = [float(dice.random()) for _ in asked]
    turn = [i % len(asked) for i in range(rows)]
    return {
        "tokens": [tokens[k].copy() for k in turn],
        "loss_masks": [np.ones(answered, np.int32) for _ in turn],
        "rollout_log_probs": [logs[k].copy() for k in turn],
        "partition": list(range(rows)),
        "rewards": [float(np.float32(rewards[k])) for k in turn],
        "response_lengths": [answered] * rows,
        "truncated": [0] * rows,
        "sample_indices": list(range(rows)),
        "raw_reward": [rewards[k] for k in turn],
        "total_lengths": [asked[k] + answered for k in turn],
    }


def content(r):
    """The bundle of a request: one of a shape, with all fields or only some."""
    if r.get("shape") == YARDSTICK:
        data = yardstick(r["rows"], r["seed"])
    else:
        data = make(r["rows"], r["seed"], r.get("longest") or 700)
    return {name: data[name] for name in r.get("only") or data}


def schemas():
    from mooncake.structured_object_store import FieldSchema

    out = {}
    for name, (codec, section, dtype) in {**LAYOUT, **MORE}.items():
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
        if name in RAGGED and same_at_once(got[name], rows):
            continue
        for i, row in enumerate(rows):
            if not same(name, got[name][i], row):
                return f"{name}[{i}] is {got[name][i]!r:.120} instead of {row!r:.120}"
    return ""


def same_at_once(got, want):
    """Compares a whole ragged field, which is much faster than row by row. False may also mean that it cannot."""
    if not want or not all(getattr(g, "shape", None) == w.shape and g.dtype == w.dtype for g, w in zip(got, want)):
        return False
    return np.array_equal(np.concatenate(list(got)), np.concatenate(want))


def same(name, got, want):
    if name in RAGGED:
        # 0.3.12 gives lists where later releases give arrays; element types must agree wherever there is one.
        return getattr(got, "dtype", want.dtype) == want.dtype and np.array_equal(np.asarray(got, want.dtype), want)
    if hasattr(got, "tolist"):
        got = got.tolist()
    if name in LAYOUT and LAYOUT[name][2] == "float32":
        return np.float32(got) == np.float32(want)
    return got == want
