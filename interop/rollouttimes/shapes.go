package main

import (
	"mooncake/bundle"
	"mooncake/interop"
)

// A shape is what a rollout consists of.
type shape struct {
	name   string
	bundle interop.Bundle // without number of rows and seed
	unpack func(*bundle.Rollout) (rows, error)
}

// rows are the fields of a rollout as a program has them, one value for each sample.
type rows interface {
	// pack makes the rollout that is stored.
	pack() (*bundle.Rollout, error)
}

// shapes are all that -shape takes. The first is that of the yardsticks; the second are the fields of a rollout of Miles without
// what only some algorithms ask for: eight, which make 24 members.
var shapes = []shape{
	{"yardstick", interop.Bundle{Shape: interop.Yardstick}, unpackNumbers},
	{"miles", interop.Bundle{Only: []string{
		"tokens", "loss_masks", "response_lengths", "sample_indices", "truncated", "rewards", "prompt", "metadata",
	}}, unpackMiles},
}

func shapeNames() (names []string) {
	for _, s := range shapes {
		names = append(names, s.name)
	}
	return names
}

// numberRows is a rollout of numbers: three ragged fields, five plain ones, and what rides in the handle.
type numberRows struct {
	tokens, masks                          [][]int32
	logs                                   [][]float32
	partition, lengths, truncated, indices []int64
	rewards                                []float32
	info                                   map[string]any
}

func (r *numberRows) pack() (*bundle.Rollout, error) {
	return &bundle.Rollout{Namespace: "miles", Rows: len(r.tokens), MetaInfo: r.info, Fields: []bundle.Field{
		bundle.Ragged("tokens", r.tokens), bundle.Ragged("loss_masks", r.masks), bundle.Ragged("rollout_log_probs", r.logs),
		bundle.Scalars("partition", r.partition), bundle.Scalars("rewards", r.rewards), bundle.Scalars("response_lengths", r.lengths),
		bundle.Scalars("truncated", r.truncated), bundle.Scalars("sample_indices", r.indices),
	}}, nil
}

func unpackNumbers(r *bundle.Rollout) (rows, error) {
	out := &numberRows{info: r.MetaInfo}
	for i := range r.Fields {
		f := &r.Fields[i]
		var err error
		switch f.Name {
		case "tokens":
			out.tokens, err = ragged[int32](f)
		case "loss_masks":
			out.masks, err = ragged[int32](f)
		case "rollout_log_probs":
			out.logs, err = ragged[float32](f)
		case "partition":
			out.partition, _, err = bundle.ReadScalars[int64](f)
		case "rewards":
			out.rewards, _, err = bundle.ReadScalars[float32](f)
		case "response_lengths":
			out.lengths, _, err = bundle.ReadScalars[int64](f)
		case "truncated":
			out.truncated, _, err = bundle.ReadScalars[int64](f)
		case "sample_indices":
			out.indices, _, err = bundle.ReadScalars[int64](f)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// milesRows is a rollout with texts and metadata beside numbers.
type milesRows struct {
	tokens, masks               [][]int32
	lengths, indices, truncated []int64
	rewards                     []float32
	prompt, metadata            []any
}

func (r *milesRows) pack() (*bundle.Rollout, error) {
	prompt, err := bundle.Values("prompt", r.prompt)
	if err != nil {
		return nil, err
	}
	metadata, err := bundle.Values("metadata", r.metadata)
	return &bundle.Rollout{Namespace: "miles", Rows: len(r.tokens), Fields: []bundle.Field{
		bundle.Ragged("tokens", r.tokens), bundle.Ragged("loss_masks", r.masks), bundle.Scalars("response_lengths", r.lengths),
		bundle.Scalars("sample_indices", r.indices), bundle.Scalars("truncated", r.truncated), bundle.Scalars("rewards", r.rewards),
		prompt, metadata,
	}}, err
}

func unpackMiles(r *bundle.Rollout) (rows, error) {
	out := &milesRows{}
	for i := range r.Fields {
		f := &r.Fields[i]
		var err error
		switch f.Name {
		case "tokens":
			out.tokens, err = ragged[int32](f)
		case "loss_masks":
			out.masks, err = ragged[int32](f)
		case "response_lengths":
			out.lengths, _, err = bundle.ReadScalars[int64](f)
		case "sample_indices":
			out.indices, _, err = bundle.ReadScalars[int64](f)
		case "truncated":
			out.truncated, _, err = bundle.ReadScalars[int64](f)
		case "rewards":
			out.rewards, _, err = bundle.ReadScalars[float32](f)
		case "prompt":
			out.prompt, err = bundle.ReadValues(f)
		case "metadata":
			out.metadata, err = bundle.ReadValues(f)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func ragged[T bundle.Number](f *bundle.Field) ([][]T, error) {
	arrays, err := bundle.ReadRagged[T](f)
	out := make([][]T, len(arrays))
	for i := range arrays {
		out[i] = arrays[i].Elements
	}
	return out, err
}
