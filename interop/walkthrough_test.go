//go:build !rdmavm

package interop

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// milesCheckout holds Miles, whose own object store module the walkthrough then uses.
var milesCheckout = flag.String("miles", "", "checkout of Miles for TestWalkthrough; without, testdata/miles makes the same calls")

// stepLimit is how long one block of the walkthrough may take, on a machine busy with other tests.
const stepLimit = 90 * time.Second

// ownWalkthrough is the page that is tested.
const ownWalkthrough = "../docs/walkthrough.md"

// walkBlock is a block of commands with the node it is for, and what it prints.
type walkBlock struct {
	line   int // where it begins
	node   int // from 0
	script string
	want   string // empty where the page shows nothing
}

func (b *walkBlock) place() string { return fmt.Sprintf("%s:%d", ownWalkthrough, b.line) }

// looks reports whether the commands change nothing.
func (b *walkBlock) looks() bool {
	for line := range strings.Lines(b.script) {
		if !strings.HasPrefix(line, "mooncakectl ") {
			return false
		}
	}
	return true
}

// TestWalkthrough follows docs/walkthrough.md: its commands on two nodes, and its outputs.
func TestWalkthrough(t *testing.T) {
	beside(t, works)
	blocks := readWalkthrough(t, ownWalkthrough)
	if os.Geteuid() != 0 {
		t.Fatal("the two nodes of the walkthrough are network namespaces: run this test as root")
	}
	nodes := walkNodes(t)
	for _, b := range blocks {
		got := nodes[b.node].do(t, b.place(), b.script)
		// What only looks may look again: a segment is on its way, or has been silent on a busy machine.
		for end := time.Now().Add(stepLimit); b.want != "" && b.looks() && !shows(b.want, got) && time.Now().Before(end); {
			time.Sleep(200 * time.Millisecond)
			got = nodes[b.node].do(t, b.place(), b.script)
		}
		if b.want != "" && !shows(b.want, got) {
			t.Fatalf("%s: the page shows\n%s\nand the commands print\n%s", b.place(), b.want, got)
		}
	}
	for _, n := range nodes {
		n.leave(t)
	}
}

// readWalkthrough takes the marked blocks out of the page.
func readWalkthrough(t *testing.T, path string) []walkBlock {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []walkBlock
	seen := map[int]int{}
	shown, last := 0, "" // kind of the last block
	lines := strings.Split(string(text), "\n")
	for i := 0; i < len(lines); i++ {
		kind, fence := strings.CutPrefix(lines[i], "```")
		if !fence {
			continue
		}
		begin := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		if i == len(lines) {
			t.Fatalf("%s:%d: the block has no end", path, begin)
		}
		body := strings.Join(lines[begin:i], "\n") + "\n"
		switch kind {
		case "sh node1", "sh node2":
			node := int(kind[len(kind)-1] - '1')
			seen[node]++
			out = append(out, walkBlock{line: begin, node: node, script: body})
		case "text":
			if !strings.HasPrefix(last, "sh node") {
				t.Fatalf("%s:%d: output without commands of a node before it", path, begin)
			}
			shown++
			out[len(out)-1].want = body
		case "sh":
		default:
			t.Fatalf("%s:%d: a block of %q: neither sh node1, sh node2, text nor sh", path, begin, kind)
		}
		last = kind
	}
	if seen[0] < 3 || seen[1] < 3 || shown < 5 {
		t.Fatalf("%s has %d blocks for the first node, %d for the second and %d outputs", path, seen[0], seen[1], shown)
	}
	return out
}

// differs lists what is never the same twice: ids, times, ports that segments choose, widths of columns.
var differs = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "ID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\b\d{12,20}-\d{12,20}\b`), "CLIENT"},
	{regexp.MustCompile(`(10\.77\.0\.\d):\d{4,5}\b`), "$1:PORT"},
	{regexp.MustCompile(` +`), " "},
	{regexp.MustCompile(` *\n`), "\n"},
}

// shows reports whether the page's output fits that of the commands. A line "..." stands for any lines.
func shows(want, got string) bool {
	for _, d := range differs {
		want, got = d.pattern.ReplaceAllString(want, d.instead), d.pattern.ReplaceAllString(got, d.instead)
	}
	var pattern strings.Builder
	for line := range strings.Lines(want) {
		if line == "...\n" {
			pattern.WriteString(`(?:.*\n)*`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(line))
		}
	}
	return regexp.MustCompile(`^` + pattern.String() + `$`).MatchString(got)
}

// TestShows holds the comparison of outputs: what may differ, and what may not.
func TestShows(t *testing.T) {
	id, other := strings.Repeat("0f", 16), strings.Repeat("1e", 16)
	for _, c := range []struct {
		want, got string
		same      bool
	}{
		{"a  b\n", "a b\n", true},
		{"a b\n", "a c\n", false},
		{"a b\n", "a b\nc\n", false},
		{"a.b\n", "axb\n", false},
		{"x/" + id + "  2026-11-30T08:00:58Z\n", "x/" + other + " 2027-01-01T00:00:00Z\n", true},
		{id + id + "\n", id + other + "\n", false}, // a digest counts
		{"10.77.0.1:18233 tcp\n", "10.77.0.1:31001  tcp\n", true},
		{"client 4270573444347344466-14040487417353517246\n", "client 3270573444347344466-9040487417353517246\n", true},
		{"50051-50054\n", "50051-50055\n", false},
		{"10.77.0.1:18233 tcp\n", "10.77.0.2:18233 tcp\n", false},
		{"...\nb\n...\n", "a\na\nb\n", true},
		{"...\nb\n...\n", "b\n", true},
		{"...\nb\n...\n", "a\nc\n", false},
	} {
		if shows(c.want, c.got) != c.same {
			t.Errorf("%q for %q: %v", c.got, c.want, !c.same)
		}
	}
}

// walkNode is one shell on one node.
type walkNode struct {
	proc  *Process
	in    io.WriteCloser
	out   chan string // lines that the shell and its commands print; closed with it
	steps string      // folder for the scripts
	done  int         // steps so far
}

// walkNodes makes two nodes and the cable between them. Nothing of them outlives their shells, and nothing has a name on the host.
func walkNodes(t *testing.T) []*walkNode {
	t.Helper()
	r := newRig(t)
	if err := BuildDaemons(t.Context(), r.Dir, false, "mooncakectl"); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(r.Dir, "work") // the folder that both nodes see
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		logs, _ := filepath.Glob(filepath.Join(work, "*.log"))
		for _, l := range logs {
			if text, err := os.ReadFile(l); t.Failed() && err == nil {
				t.Logf("%s:\n%s", filepath.Base(l), lastLines(text, 15))
			}
		}
	})
	nodes := []*walkNode{startNode(t, r, 1, work), startNode(t, r, 2, work)}
	pids := []string{strconv.Itoa(nodes[0].proc.Pid()), strconv.Itoa(nodes[1].proc.Pid())}
	inNetwork(t, pids[0], "link add eth0 type veth peer name eth0 netns "+pids[1])
	for i, pid := range pids {
		inNetwork(t, pid, "link set lo up", fmt.Sprintf("address add 10.77.0.%d/24 dev eth0", i+1), "link set eth0 up")
	}
	return nodes
}

// inNetwork runs commands of iproute2 in the network of a process.
func inNetwork(t *testing.T, pid string, lines ...string) {
	t.Helper()
	cmd := exec.Command("nsenter", "--target", pid, "--net", "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n") + "\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", lines, err, out)
	}
}

// startNode starts a shell with a network, processes and mounts of its own. With it all ends that it has started.
func startNode(t *testing.T, r *Rig, number int, work string) *walkNode {
	t.Helper()
	wheel, ok := OpenEnvironment(R13)
	if !ok {
		t.Fatalf("the wheel %s is not set up", R13.Version())
	}
	modules, err := filepath.Abs("testdata")
	if err != nil {
		t.Fatal(err)
	}
	python := modules
	if *milesCheckout != "" {
		if python, err = filepath.Abs(*milesCheckout); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(python, "miles/utils/object_store.py")); err != nil {
			t.Fatalf("-miles %s is no checkout of Miles: %v", *milesCheckout, err)
		}
		python += ":" + filepath.Join(modules, "noray")
	}
	cmd := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--", "bash", "--norc")
	cmd.Dir = work
	path := strings.Join([]string{built.dir, r.Dir, filepath.Dir(wheel.Python), os.Getenv("PATH")}, ":")
	cmd.Env = wheel.environ("PATH="+path, "PYTHONPATH="+python, "MC_TCP_BIND_ADDRESS=")
	n := &walkNode{out: make(chan string, 1000), steps: filepath.Join(r.Dir, fmt.Sprintf("node%d", number))}
	if err := os.Mkdir(n.steps, 0o755); err != nil {
		t.Fatal(err)
	}
	if n.in, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if n.proc, err = r.Start(fmt.Sprintf("node %d", number), cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.proc.Kill)
	go func() {
		defer close(n.out)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n.out <- lines.Text()
		}
	}()
	n.do(t, "its mounts", "set -eu\nmount -t tmpfs node /dev/shm\nmount -t tmpfs node /var/lib\n")
	return n
}

// do runs a script in the shell and answers with what it prints. A command that fails ends the shell, and the test.
func (n *walkNode) do(t *testing.T, what, script string) string {
	t.Helper()
	n.done++
	file := filepath.Join(n.steps, strconv.Itoa(n.done))
	end := fmt.Sprintf("=== end of step %d ===", n.done)
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(n.in, ". %s\necho '%s'\n", file, end); err != nil {
		t.Fatalf("%s, %s: %v", n.proc.Name, what, err)
	}
	var printed strings.Builder
	limit := time.After(stepLimit)
	for {
		select {
		case line, open := <-n.out:
			if !open {
				t.Fatalf("%s, %s: a command failed after\n%s", n.proc.Name, what, printed.String())
			}
			if line == end {
				return printed.String()
			}
			printed.WriteString(line + "\n")
		case <-limit:
			t.Fatalf("%s, %s: no end after %v; printed so far:\n%s", n.proc.Name, what, stepLimit, printed.String())
		}
	}
}

// leave ends the shell, which has nothing to do any more.
func (n *walkNode) leave(t *testing.T) {
	t.Helper()
	if left := n.do(t, "what is left", "jobs -r\n"); left != "" {
		t.Errorf("%s: the page leaves running\n%s", n.proc.Name, left)
	}
	n.in.Close()
	if code, err := n.proc.ExitCode(stepLimit); err != nil || code != 0 {
		t.Errorf("%s: the shell ended with code %d, %v", n.proc.Name, code, err)
	}
}
