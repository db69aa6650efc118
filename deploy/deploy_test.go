package deploy

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// programs are the daemons, built once for all tests.
var programs string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "deploy")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		programs = dir
		build := exec.Command("go", "build", "-o", dir+"/", "../cmd/...")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// documents decodes all documents of a YAML file.
func documents(t *testing.T, path string) (out []map[string]any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(read(t, path)))
	for {
		var doc map[string]any
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out = append(out, doc)
	}
}

// at follows names, and numbers of list items, into a document; nil where there is nothing.
func at(v any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[s]
		case int:
			l, _ := v.([]any)
			if s >= len(l) {
				return nil
			}
			v = l[s]
		}
	}
	return v
}

func list(v any, path ...any) []any {
	l, _ := at(v, path...).([]any)
	return l
}

func words(v any, path ...any) (out []string) {
	for _, w := range list(v, path...) {
		s, _ := w.(string)
		out = append(out, s)
	}
	return out
}

// starts has a daemon check a command line as it stands in a file. Folders are replaced by one that exists, names of other
// hosts by this one, and the size by one that any machine has.
func starts(t *testing.T, line, env []string) {
	t.Helper()
	folder := regexp.MustCompile(`=/(var/lib|dev/shm)[\w/-]*`)
	host := regexp.MustCompile(`=(\$\(POD\)\.[\w.-]+|[\w.-]+\.svc\b|172\.30\.0\.\d+)`)
	cmd := exec.Command(filepath.Join(programs, filepath.Base(line[0])))
	for _, arg := range append(line[1:len(line):len(line)], "--check_config") {
		cmd.Args = append(cmd.Args, host.ReplaceAllString(folder.ReplaceAllString(arg, "="+t.TempDir()), "=127.0.0.1"))
	}
	cmd.Env = append(os.Environ(), "MOONCAKE_GLOBAL_SEGMENT_SIZE=16mb", "MOONCAKE_LOCAL_HOSTNAME=127.0.0.1")
	help, _ := exec.Command(cmd.Path, "--help").CombinedOutput() // its code is not 0, as gflags has it
	for _, e := range env {
		name, value, _ := strings.Cut(e, "=")
		if !bytes.Contains(help, []byte("(env "+name+")")) {
			t.Errorf("%s takes nothing from %s", line[0], name)
		}
		if name == "MOONCAKE_MASTER" {
			cmd.Env = append(cmd.Env, host.ReplaceAllString(e, "=127.0.0.1"))
		}
		if value == "" {
			t.Errorf("%s is empty", name)
		}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%q: %v: %s", cmd.Args, err, out)
	}
}

// TestUnits has systemd check the units, and looks for what keeps the segment in memory over a restart.
func TestUnits(t *testing.T) {
	dir := t.TempDir()
	var paths []string
	for _, name := range []string{"mooncake-master.service", "mooncake-segment.service"} {
		text := read(t, "systemd/"+name)
		line := regexp.MustCompile(`(?m)^ExecStart=/usr/bin/(.*)$`).FindStringSubmatch(text)
		if line == nil {
			t.Fatalf("%s starts nothing of ours", name)
		}
		starts(t, slices.DeleteFunc(strings.Fields(line[1]), func(w string) bool { return strings.HasPrefix(w, "$") }), nil)
		paths = append(paths, filepath.Join(dir, name))
		if err := os.WriteFile(paths[len(paths)-1], []byte(strings.ReplaceAll(text, "/usr/bin/", programs+"/")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"handshake", "data"} {
		text, unit := read(t, "systemd/mooncake-segment-"+name+".socket"), "mooncake-segment-"+name+".socket"
		for _, want := range []string{"FileDescriptorName=" + name, "Service=mooncake-segment.service"} {
			if !strings.Contains(text, "\n"+want+"\n") {
				t.Errorf("%s lacks %s", unit, want)
			}
		}
		paths = append(paths, filepath.Join(dir, unit))
		if err := os.WriteFile(paths[len(paths)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("systemd-analyze", append([]string{"verify"}, paths...)...).CombinedOutput()
	if err != nil {
		t.Errorf("systemd-analyze: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "mooncake-") {
			t.Errorf("systemd says: %s", line)
		}
	}
	segment := "\n" + read(t, "systemd/mooncake-segment.service")
	for _, want := range []string{"RestartKillSignal=SIGUSR1", "RemoveIPC=no", "PrivateTmp=no", "PrivateIPC=no", "ReadWritePaths=/dev/shm", "LimitMEMLOCK=infinity"} {
		if !strings.Contains(segment, "\n"+want+"\n") {
			t.Errorf("mooncake-segment.service lacks %s", want)
		}
	}
	if strings.Contains(segment, "\nDynamicUser=") || strings.Contains(segment, "\nPrivateDevices=yes") {
		t.Error("mooncake-segment.service: a dynamic user's shared memory goes with the unit, and RDMA needs devices")
	}
}

// TestImage compares the Dockerfile with the project.
func TestImage(t *testing.T) {
	text := read(t, "docker/Dockerfile")
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../go.mod"))
	if !strings.Contains(text, "FROM golang:"+version[1]+"-") {
		t.Errorf("the image is not built with Go %s, which go.mod asks for", version[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^COPY (go\S+) (go\S+) `).FindAllStringSubmatch(text, -1) {
		for _, f := range m[1:] {
			if _, err := os.Stat(filepath.Join("..", f)); err != nil {
				t.Error(err)
			}
		}
	}
	cmd := regexp.MustCompile(`(?m)^CMD (\[.*\])$`).FindStringSubmatch(text)
	var line []string
	if cmd == nil || yaml.Unmarshal([]byte(cmd[1]), &line) != nil {
		t.Fatal("the image has no command")
	}
	starts(t, line, nil)
}

// TestCompose starts what the Compose file starts.
func TestCompose(t *testing.T) {
	doc := documents(t, "docker/compose.yaml")[0]
	services, _ := doc["services"].(map[string]any)
	if len(services) != 2 {
		t.Fatalf("%d services", len(services))
	}
	for name, s := range services {
		var env []string
		vars, _ := at(s, "environment").(map[string]any)
		for k, v := range vars {
			text, _ := v.(string)
			env = append(env, k+"="+text)
		}
		starts(t, words(s, "command"), env)
		if at(s, "networks", "pool", "ipv4_address") == nil {
			t.Errorf("%s has no fixed address", name)
		}
	}
	if _, err := os.Stat(filepath.Join("docker", at(services["master"], "build", "context").(string), at(services["master"], "build", "dockerfile").(string))); err != nil {
		t.Error(err)
	}
}

// TestManifests reads every manifest: what refers to something finds it, and containers start with the flags they have.
func TestManifests(t *testing.T) {
	known := map[string]any{} // kind/name -> pod template
	services := map[string]any{}
	for _, file := range []string{"master", "segment"} {
		for _, doc := range documents(t, "kubernetes/pool/"+file+".yaml") {
			kind, name := at(doc, "kind").(string), at(doc, "metadata", "name").(string)
			if kind == "Service" {
				services[name] = doc
				continue
			}
			known[kind+"/"+name] = doc
			checkPods(t, name, doc)
		}
	}
	app := map[any]any{}
	for _, doc := range known {
		app[at(doc, "spec", "template", "metadata", "labels", "app")] = doc
	}
	for name, s := range services {
		pods := app[at(s, "spec", "selector", "app")]
		for _, p := range list(s, "spec", "ports") {
			if !hasPort(pods, at(p, "targetPort")) {
				t.Errorf("service %s: no pod has the port %v", name, at(p, "targetPort"))
			}
		}
	}
	if set := known["StatefulSet/mooncake-master"]; services[at(set, "spec", "serviceName").(string)] == nil {
		t.Error("the masters' service is missing")
	}
	for _, patch := range []string{"ha/masters.yaml", "ha/segments.yaml", "rdma/segments.yaml"} {
		for _, doc := range documents(t, "kubernetes/"+patch) {
			target := known[at(doc, "kind").(string)+"/"+at(doc, "metadata", "name").(string)]
			if target == nil {
				t.Fatalf("%s changes nothing", patch)
			}
			for _, c := range list(doc, "spec", "template", "spec", "containers") {
				of := at(target, "spec", "template", "spec", "containers", 0)
				if at(c, "name") != at(of, "name") {
					t.Errorf("%s: container %v", patch, at(c, "name"))
				}
				args := words(c, "args")
				if args == nil {
					args = words(of, "args")
				}
				starts(t, append(words(of, "command"), args...), environment(c))
			}
		}
	}
	for _, doc := range documents(t, "kubernetes/monitoring/podmonitor.yaml") {
		pods := app[at(doc, "spec", "selector", "matchLabels", "app")]
		for _, e := range list(doc, "spec", "podMetricsEndpoints") {
			if !hasPort(pods, at(e, "port")) {
				t.Errorf("%v: no pod has the port %v", at(doc, "metadata", "name"), at(e, "port"))
			}
		}
	}
}

// TestKustomizations finds every file that a kustomization names.
func TestKustomizations(t *testing.T) {
	files, err := filepath.Glob("kubernetes/*/kustomization.yaml")
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		doc := documents(t, f)[0]
		names := words(doc, "resources")
		for _, p := range list(doc, "patches") {
			names = append(names, at(p, "path").(string))
		}
		for _, name := range names {
			if _, err := os.Stat(filepath.Join(filepath.Dir(f), name)); err != nil {
				t.Errorf("%s: %v", f, err)
			}
		}
	}
}

// environment gives what a container gets from the manifest itself, with a stand-in for what it gets from the node.
func environment(container any) (out []string) {
	for _, e := range list(container, "env") {
		value, ok := at(e, "value").(string)
		if !ok {
			value = "127.0.0.1"
		}
		if name := at(e, "name").(string); name != "POD" && value != "rdma" { // this machine has no device of it
			out = append(out, name+"="+value)
		}
	}
	return out
}

func hasPort(pods, name any) bool {
	return slices.ContainsFunc(list(pods, "spec", "template", "spec", "containers", 0, "ports"), func(p any) bool { return at(p, "name") == name })
}

// checkPods looks at the pods of a set.
func checkPods(t *testing.T, name string, doc any) {
	t.Helper()
	if at(doc, "spec", "selector", "matchLabels", "app") != at(doc, "spec", "template", "metadata", "labels", "app") {
		t.Errorf("%s does not select its own pods", name)
	}
	volumes := map[any]bool{}
	for _, v := range append(list(doc, "spec", "template", "spec", "volumes"), list(doc, "spec", "volumeClaimTemplates")...) {
		volumes[at(v, "name")], volumes[at(v, "metadata", "name")] = true, true
	}
	c := at(doc, "spec", "template", "spec", "containers", 0)
	starts(t, append(words(c, "command"), words(c, "args")...), environment(c))
	for _, kind := range []string{"containers", "initContainers"} {
		for _, c := range list(doc, "spec", "template", "spec", kind) {
			for _, m := range list(c, "volumeMounts") {
				if !volumes[at(m, "name")] {
					t.Errorf("%s: no volume %v", name, at(m, "name"))
				}
			}
		}
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		port := at(c, probe, "httpGet", "port")
		if port == nil {
			port = at(c, probe, "tcpSocket", "port")
		}
		if !hasPort(doc, port) {
			t.Errorf("%s: %s asks port %v, which there is not", name, probe, port)
		}
	}
}
