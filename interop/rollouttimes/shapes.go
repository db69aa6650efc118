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
	return out, unpack(r, map[string]reader{
		"tokens": ragged(&out.tokens), "loss_masks": ragged(&out.masks), "rollout_log_probs": ragged(&out.logs),
		"partition": scalars(&out.partition), "rewards": scalars(&out.rewards), "response_lengths": scalars(&out.lengths),
		"truncated": scalars(&out.truncated), "sample_indices": scalars(&out.indices),
	})
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
	return out, unpack(r, map[string]reader{
		"tokens": ragged(&out.tokens), "loss_masks": ragged(&out.masks), "response_lengths": scalars(&out.lengths),
		"sample_indices": scalars(&out.indices), "truncated": scalars(&out.truncated), "rewards": scalars(&out.rewards),
		"prompt": values(&out.prompt), "metadata": values(&out.metadata),
	})
}

// reader reads a field into where a program has it.
type reader func(*bundle.Field) error

// unpack reads all fields for which there is a reader.
func unpack(r *bundle.Rollout, readers map[string]reader) error {
	for i := range r.Fields {
		f := &r.Fields[i]
		if read := readers[f.Name]; read != nil {
			if err := read(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func ragged[T bundle.Number](into *[][]T) reader {
	return func(f *bundle.Field) error {
		arrays, err := bundle.ReadRagged[T](f)
		*into = make([][]T, len(arrays))
		for i := range arrays {
			(*into)[i] = arrays[i].Elements
		}
		return err
	}
}

func scalars[T bundle.Number](into *[]T) reader {
	return func(f *bundle.Field) (err error) {
		*into, _, err = bundle.ReadScalars[T](f)
		return err
	}
}

func values(into *[]any) reader {
	return func(f *bundle.Field) (err error) {
		*into, err = bundle.ReadValues(f)
		return err
	}
}
