package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"mooncake/interop"
)

// rollouts are the bundles that are handed over.
var rollouts = []interop.Bundle{
	{Rows: 64, Seed: 1},
	{Rows: 512, Seed: 2},
	{Rows: 2048, Seed: 3, Chunk: 1 << 20},
}

// show hands the rollouts over and prints what happened.
func (c *cluster) show() error {
	producer, version, err := c.join()
	if err != nil {
		return err
	}
	consumer, _, err := c.join()
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, "two clients       wheel %s, unchanged: one writes (pid %d), one reads (pid %d)\n\n",
		version, producer.Client.Pid(), consumer.Client.Pid())
	before, err := c.master.Metrics()
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "rows\tbytes\tobjects\tPUT ms\tGET ms\tequal\tchunks lie on\t")
	for _, b := range rollouts {
		row, err := c.handOver(producer, consumer, b)
		if err != nil {
			return err
		}
		fmt.Fprintln(table, row)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	return c.moved(before)
}

// join starts a client without memory of its own.
func (c *cluster) join() (st *interop.Store, version string, err error) {
	client, err := c.rig.StartClient(interop.R13)
	if err != nil {
		return nil, "", err
	}
	if err := client.Do("version", nil, &version); err != nil {
		return nil, "", err
	}
	st, code, err := client.Setup(interop.StoreOptions{Master: c.master.RPC, BufferBytes: 128 << 20})
	if err == nil && code != 0 {
		err = fmt.Errorf("setup of the client: code %d", code)
	}
	return st, version, err
}

// handOver writes, reads, compares and reclaims one bundle, and answers with its line of the table.
func (c *cluster) handOver(producer, consumer *interop.Store, b interop.Bundle) (string, error) {
	handle, bytes, putMs, err := producer.PutBundle(b)
	if err != nil {
		return "", err
	}
	where, objects, err := c.placement(consumer, strings.TrimSuffix(handle.ManifestKey(), "manifest"))
	if err != nil {
		return "", err
	}
	difference, getMs, err := consumer.GetBundle(handle, b, nil, nil)
	if err != nil {
		return "", err
	}
	if difference != "" {
		return "", fmt.Errorf("the bundle of %d rows differs: %s", b.Rows, difference)
	}
	if err := producer.CleanBundle(handle); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d\t%s\t%d\t%.1f\t%.1f\tyes\t%s\t", b.Rows, mib(bytes), objects, putMs, getMs, where), nil
}

// placement asks where every object of a bundle lies.
func (c *cluster) placement(st *interop.Store, prefix string) (where string, objects int, err error) {
	keys, err := c.master.Keys(prefix)
	if err != nil {
		return "", 0, err
	}
	on := map[string]int{}
	for _, k := range keys {
		copies, err := st.Replicas(interop.Key(k))
		if err != nil {
			return "", 0, err
		}
		for _, at := range copies {
			on[at.Endpoint]++
		}
	}
	var parts []string
	for _, endpoint := range slices.Sorted(maps.Keys(on)) {
		parts = append(parts, fmt.Sprintf("%s (%d)", endpoint, on[endpoint]))
	}
	return strings.Join(parts, ", "), len(keys), nil
}

// moved prints which of the master's samples changed, and insists that the pool is empty again.
func (c *cluster) moved(before map[string]float64) error {
	after, err := c.master.Metrics()
	if err != nil {
		return err
	}
	fmt.Fprintln(c.out, "\nmetrics that moved")
	table := tabwriter.NewWriter(c.out, 0, 8, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if after[name] != before[name] && strings.HasPrefix(name, "master_") {
			fmt.Fprintf(table, "  %s\t%.0f -> %.0f\n", name, before[name], after[name])
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if left := after["master_allocated_bytes"]; left != 0 {
		return fmt.Errorf("%.0f bytes are still allocated after everything was reclaimed", left)
	}
	fmt.Fprintln(c.out, "\nAll bundles equal, everything reclaimed: 0 bytes allocated.")
	return nil
}
