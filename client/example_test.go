package client_test

import (
	"context"
	"fmt"
	"time"

	"mooncake/bundle"
	"mooncake/client"
)

func ExampleClient_Put() {
	c, err := client.New(client.Config{Masters: []string{"10.0.0.1:50054"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := c.Put(ctx, "greeting", []byte("hello"), client.PutOptions{Copies: 2}); err != nil {
		fmt.Println(err)
		return
	}
	data, err := c.Get(ctx, "greeting")
	fmt.Println(string(data), err)
}

func ExampleClient_PutRollout() {
	c, err := client.New(client.Config{Masters: []string{"10.0.0.1:50054", "10.0.0.2:50054"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	prompts, err := bundle.Values("prompt", []any{"what?", "why?"})
	if err != nil {
		fmt.Println(err)
		return
	}
	handle, err := c.PutRollout(ctx, &bundle.Rollout{Rows: 2, Fields: []bundle.Field{
		bundle.Ragged("tokens", [][]int32{{1, 2, 3}, {4}}), bundle.Scalars("rewards", []float32{0.5, 1}), prompts,
	}}, client.BundleOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := handle.Encode() // a published client's import_ref takes it
	fmt.Println(len(text) > 0, err)
}

func ExampleClient_GetRollout() {
	c, err := client.New(client.Config{Masters: []string{"10.0.0.1:50054"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	handle, err := bundle.ParseHandle([]byte(`{"type":"mooncake_dataproto_ref", …}`)) // what export_ref gave
	if err != nil {
		fmt.Println(err)
		return
	}
	rollout, err := c.GetRollout(context.Background(), handle, "tokens")
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := bundle.ReadRagged[int32](&rollout.Fields[0])
	fmt.Println(len(rows), err)
}
