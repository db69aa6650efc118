package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"mooncake/interop"
)

// fetchPrometheus returns the folder of its programs: where it is installed, else in the cache, into which Debian's package is
// unpacked if it is not there yet.
func fetchPrometheus(ctx context.Context, out io.Writer) (bin string, err error) {
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if server, err := exec.LookPath("prometheus"); err == nil && filepath.Dir(server) == filepath.Dir(promtool) {
			return filepath.Dir(server), nil
		}
	}
	cache, err := interop.CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "prometheus")
	bin = filepath.Join(root, "usr", "bin")
	if _, err := os.Stat(filepath.Join(bin, "promtool")); err == nil {
		return bin, nil
	}
	fmt.Fprintf(out, "Fetching from Debian's archive, to unpack into %s, without installing it: prometheus\n", root)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	script := `cd "$1" && (apt-get download -q prometheus || (apt-get update -q && apt-get download -q prometheus)) && dpkg-deb -x prometheus_*.deb . && rm -f prometheus_*.deb`
	cmd := exec.CommandContext(ctx, "sh", "-c", script, "sh", root)
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("fetching prometheus: %w: %s", err, text)
	}
	return bin, nil
}

// publishedSeries lists the series whose names promtool may not like: the published masters chose them.
const publishedSeries = "metrics/testdata/metrics.tsv"

// check has promtool look at rules, settings and the metrics of a running master.
func check(ctx context.Context, tools, dir, master string, out io.Writer) error {
	for _, args := range [][]string{{"check", "rules", "deploy/prometheus/rules.yml"}, {"check", "config", "deploy/prometheus/prometheus.yml"}} {
		if text, err := exec.CommandContext(ctx, filepath.Join(tools, "promtool"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, text)
		}
	}
	resp, err := http.Get("http://" + master + "/metrics")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "promtool"), "check", "metrics")
	cmd.Stdin = resp.Body
	text, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) { // 3: it reads them, and has something to say of names
		return fmt.Errorf("promtool check metrics: %w\n%s", err, text)
	}
	theirs, err := os.ReadFile(publishedSeries)
	if err != nil {
		return err
	}
	notes := 0
	for line := range strings.Lines(string(text)) {
		name, _, _ := strings.Cut(line, " ")
		// Go's own names are not ours to choose either.
		if strings.Contains(string(theirs), "\t"+name+"\t") || strings.HasPrefix(name, "mooncake_go_memstats_") || strings.HasPrefix(name, "mooncake_go_gc_") {
			notes++
			continue
		}
		return fmt.Errorf("promtool check metrics: %s", line)
	}
	fmt.Fprintf(out, "promtool reads rules, settings and metrics; %d notes about names that the published masters or Go chose\n", notes)
	return nil
}

// database is a running Prometheus.
type database struct{ address string }

func startPrometheus(rig *interop.Rig, tools, master string) (*database, error) {
	ports, err := rig.TakePorts(1)
	if err != nil {
		return nil, err
	}
	rules, err := filepath.Abs("deploy/prometheus/rules.yml")
	if err != nil {
		return nil, err
	}
	settings := filepath.Join(rig.Dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: mooncake-master\n  static_configs: [{targets: [%q]}]\n", rules, master)
	if err := os.WriteFile(settings, []byte(text), 0o644); err != nil {
		return nil, err
	}
	db := &database{"127.0.0.1:" + strconv.Itoa(ports[0])}
	cmd := exec.Command(filepath.Join(tools, "prometheus"), "--config.file="+settings, "--storage.tsdb.path="+filepath.Join(rig.Dir, "tsdb"),
		"--web.listen-address="+db.address, "--log.level=warn")
	if _, err := rig.Start("prometheus", cmd); err != nil {
		return nil, err
	}
	for limit := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if resp, err := http.Get("http://" + db.address + "/-/ready"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return db, nil
			}
		}
		if time.Now().After(limit) {
			return nil, errors.New("prometheus does not get ready")
		}
	}
}

// answers is how many series answer a query.
func (db *database) answers(ctx context.Context, query string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+db.address+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var answer struct {
		Status, Error string
		Data          struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return 0, err
	}
	if answer.Status != "success" {
		return 0, fmt.Errorf("%s: %s", query, answer.Error)
	}
	return len(answer.Data.Result), nil
}

// unfilled are queries that have no answer at a master that is alone, and on a cluster in good health.
var unfilled = regexp.MustCompile(`master_ha_(is_leader|etcd_bytes|etcd_quota_bytes)`)

// askAll asks for everything.
func (db *database) askAll(ctx context.Context, out io.Writer) error {
	theirs, err := os.ReadFile("metrics/testdata/dashboard_queries.txt")
	if err != nil {
		return err
	}
	ours, err := queriesOf("deploy/grafana/mooncake.json")
	if err != nil {
		return err
	}
	var empty []string
	for name, queries := range map[string][]string{"the published dashboard": strings.Split(strings.TrimSpace(string(theirs)), "\n"), "deploy/grafana/mooncake.json": ours} {
		filled, without := 0, 0
		for _, query := range queries {
			n, err := db.answers(ctx, query)
			switch {
			case err != nil:
				return err
			case n > 0:
				filled++
			case unfilled.MatchString(query):
				without++
			default:
				empty = append(empty, name+": "+query)
			}
		}
		fmt.Fprintf(out, "%s: %d of %d queries are filled; %d ask for several masters\n", name, filled, len(queries), without)
	}
	if len(empty) > 0 {
		return fmt.Errorf("%d queries have no answer:\n%s", len(empty), strings.Join(empty, "\n"))
	}
	return db.checkRules(ctx, out)
}

// queriesOf reads the queries of a dashboard, with what Grafana puts in.
func queriesOf(path string) (queries []string, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var board struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &board); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	fill := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$instance", ".*")
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			queries = append(queries, fill.Replace(target.Expr))
		}
	}
	return queries, nil
}

// checkRules asks whether all rules are evaluated without an error.
func (db *database) checkRules(ctx context.Context, out io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+db.address+"/api/v1/rules", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError, State string }
			}
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return err
	}
	rules := 0
	for _, g := range answer.Data.Groups {
		for _, r := range g.Rules {
			if rules++; r.Health != "ok" {
				return fmt.Errorf("rule %s: %s %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	fmt.Fprintf(out, "%d rules are evaluated\n", rules)
	if rules == 0 {
		return errors.New("no rule is evaluated")
	}
	return nil
}
