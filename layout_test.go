package mooncake

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is the prefix of our own import paths.
const module = "mooncake/"

// maxFileLines bounds the length of a hand-written file: what is longer does more than one deed.
const maxFileLines = 600

// limitsFile may be longer: it is a list, and all bounds are to stand in one place.
const limitsFile = "internal/limits/limits.go"

// maxFunctionLines bounds the length of a function outside tests.
const maxFunctionLines = 70

// imports says which packages of ours a folder may import. A folder without a line of its own takes that of the closest
// folder above; "internal" stands for everything below internal/, "*" for everything. Test files may import more only where
// testImports says so.
var imports = map[string][]string{
	"cmd":                 {"*"},
	"master":              {"replication", "catalog", "bundle", "descriptor", "wire", "wire/rpc", "api", "metrics", "kvevents", "internal"},
	"segment":             {"descriptor", "tcp", "rdma", "wire", "wire/rpc", "api", "metrics", "internal"},
	"client":              {"descriptor", "tcp", "bundle", "wire", "wire/rpc", "api", "internal"},
	"replication":         {"catalog", "internal"},
	"catalog":             {"catalog/alloc", "bundle", "internal/limits"},
	"catalog/alloc":       {"internal/limits"},
	"bundle":              {"internal/limits"},
	"descriptor":          {"internal"},
	"tcp":                 {"descriptor", "internal"},
	"rdma":                {"descriptor", "internal"},
	"wire":                {"wire", "wire/pack", "wire/rpc", "internal"},
	"metrics":             {"internal/limits"},
	"kvevents":            {"internal/limits"},
	"api":                 {},
	"internal":            {"internal"},
	"interop":             {"interop/vm"}, // it looks at the daemons from outside
	"interop/vm":          {"interop/vm"},
	"interop/vm/run":      {"interop", "interop/vm"},
	"interop/inguest":     {"interop", "interop/vm"},
	"interop/demo":        {"interop", "internal"},
	"interop/dashboards":  {"interop"},
	"bench":               {"*"},
	"deploy":              {"*"},
	"docs":                {},
	"":                    {},
	"internal/limits":     {},
	"internal/hostport":   {"internal/limits"},
	"internal/units":      {"internal/limits"},
	"internal/etcdkv":     {"internal/limits", "internal/hostport"},
	"internal/rawconn":    {"internal/limits"},
	"internal/schedslice": {"internal/limits"},
	"internal/gflag":      {"internal/limits", "internal/units"},
	"wire/gen":            {"wire", "wire/pack", "internal"},
	"interop/prepare":     {"interop"},
	"interop/verdict":     {"internal/limits"},

	"interop/rollouttimes": {"interop", "client", "bundle"},
}

// pure packages decide or decode and touch nothing of the world: no clock, no goroutine, no socket, no disk.
var pure = []string{"catalog", "catalog/alloc", "bundle", "wire/pack"}

// worldly are the standard packages through which a package would touch the world.
var worldly = []string{"net", "net/http", "os", "os/exec", "syscall", "time", "context"}

// vagueNames are names that say nothing about what is inside.
var vagueNames = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "base"}

// invariants counts the panics of library code, by file. Each stands for something that only a mistake in this code can
// cause and after which going on would do harm; a further one has to be argued for here.
var invariants = map[string]int{
	"catalog/segment.go":    1, // a range of a segment freed twice: its bytes would be handed out twice
	"descriptor/segment.go": 1, // a plain struct that does not encode as JSON
}

// sourceFile is one parsed Go file.
type sourceFile struct {
	path string // from the root, with slashes
	dir  string // folder, "" for the root
	test bool
	ast  *ast.File
	text []byte
}

// generated reports whether a program has written the file.
func (f *sourceFile) generated() bool {
	return strings.HasSuffix(f.path, ".gen.go") || strings.HasSuffix(f.path, ".pb.go")
}

var fset = token.NewFileSet()

// sources parses every Go file of the module once.
func sources(t *testing.T) []*sourceFile {
	t.Helper()
	var out []*sourceFile
	for _, p := range files(t) {
		if !strings.HasSuffix(p, ".go") || strings.Contains(p, "testdata/") {
			continue
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(fset, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		dir := path.Dir(p)
		if dir == "." {
			dir = ""
		}
		out = append(out, &sourceFile{path: p, dir: dir, test: strings.HasSuffix(p, "_test.go"), ast: parsed, text: text})
	}
	return out
}

// files lists everything that belongs to the project: all but built and fetched things.
func files(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (p == ".git" || p == ".cache" || p == "bin" || strings.HasSuffix(p, "testdata/fuzz")) {
			return filepath.SkipDir
		}
		if p != ".git" && !d.IsDir() && d.Type().IsRegular() {
			out = append(out, filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestImports holds the dependency arrows between our packages.
func TestImports(t *testing.T) {
	for _, f := range sources(t) {
		allowed := allowedImports(f.dir)
		if allowed == nil {
			t.Errorf("%s: the folder %q has no line in the table of imports", f.path, f.dir)
			continue
		}
		for _, spec := range f.ast.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			ours, isOurs := strings.CutPrefix(name, module)
			if isOurs && ours != f.dir && !mayImport(allowed, ours) && !(f.test && testMayImport(f.dir, ours)) {
				t.Errorf("%s may not import %s (allowed: %s)", f.path, name, strings.Join(allowed, " "))
			}
		}
	}
}

func allowedImports(dir string) []string {
	for d := dir; ; d = path.Dir(d) {
		if allowed, ok := imports[d]; ok {
			return allowed
		}
		if d == "." || d == "" {
			return nil
		}
	}
}

func mayImport(allowed []string, ours string) bool {
	for _, a := range allowed {
		if a == "*" || a == ours || strings.HasPrefix(ours, a+"/") && (a == "internal" || a == "api") {
			return true
		}
	}
	return false
}

// testMayImport lets tests of the daemons play both sides of a connection.
func testMayImport(dir, ours string) bool {
	switch {
	case strings.HasPrefix(ours, "internal/"):
		return true
	case dir == "segment":
		return strings.HasPrefix(ours, "master") || strings.HasPrefix(ours, "catalog") || strings.HasPrefix(ours, "wire")
	case dir == "master", dir == "replication", dir == "client":
		return true
	case dir == "wire" || strings.HasPrefix(dir, "wire/"), dir == "interop": // calls faster than a wheel makes them
		return strings.HasPrefix(ours, "wire") || dir == "interop" && (ours == "client" || ours == "bundle")
	}
	return false
}

// TestPure keeps the deciding packages free of clock, goroutines, sockets and disk.
func TestPure(t *testing.T) {
	for _, f := range sources(t) {
		if f.test || !slices.Contains(pure, f.dir) {
			continue
		}
		for _, spec := range f.ast.Imports {
			if name, _ := strconv.Unquote(spec.Path.Value); slices.Contains(worldly, name) {
				t.Errorf("%s imports %s: package %s may not touch the world", f.path, name, f.dir)
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if g, ok := n.(*ast.GoStmt); ok {
				t.Errorf("%s: package %s starts a goroutine", fset.Position(g.Pos()), f.dir)
			}
			return true
		})
	}
}

// TestEtcd keeps the etcd client in one package and the etcd server out of the binaries.
func TestEtcd(t *testing.T) {
	for _, f := range sources(t) {
		for _, spec := range f.ast.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if strings.HasPrefix(name, "go.etcd.io/") && !strings.HasPrefix(f.dir, "internal/etcdkv") {
				t.Errorf("%s imports %s: only internal/etcdkv does", f.path, name)
			}
		}
	}
	out, err := exec.Command("go", "list", "-deps", "./cmd/...").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "etcd/server") {
			t.Errorf("a binary contains %s", strings.TrimSpace(line))
		}
	}
}

// TestSizes bounds files and functions.
func TestSizes(t *testing.T) {
	for _, f := range sources(t) {
		if f.generated() {
			continue
		}
		if lines := strings.Count(string(f.text), "\n"); lines > maxFileLines && f.path != limitsFile {
			t.Errorf("%s has %d lines, at most %d", f.path, lines, maxFileLines)
		}
		if f.test {
			continue
		}
		for _, decl := range f.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := fset.Position(fn.End()).Line - fset.Position(fn.Pos()).Line + 1; lines > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, at most %d", f.path, fn.Name.Name, lines, maxFunctionLines)
			}
		}
	}
}

// TestNames refuses names of packages and files that say nothing.
func TestNames(t *testing.T) {
	for _, f := range sources(t) {
		file := strings.TrimSuffix(strings.TrimSuffix(path.Base(f.path), ".go"), "_test")
		for _, vague := range vagueNames {
			if file == vague || f.ast.Name.Name == vague || strings.HasSuffix(file, "_"+vague) {
				t.Errorf("%s: the name %q says nothing about what is inside", f.path, vague)
			}
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil && len(fn.Recv.List[0].Names) > 0 {
				if name := fn.Recv.List[0].Names[0].Name; name == "this" || name == "self" {
					t.Errorf("%s: receiver %q", fset.Position(fn.Pos()), name)
				}
			}
		}
	}
}

// TestQuiet keeps printing, panics and exits where they belong.
func TestQuiet(t *testing.T) {
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		isMain, panics := f.ast.Name.Name == "main", 0
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := callee(call); {
			case strings.HasPrefix(name, "fmt.Print") && !isMain, name == "print", name == "println":
				t.Errorf("%s: %s outside a command", fset.Position(call.Pos()), name)
			case strings.HasPrefix(name, "log.") && slices.Contains(importNames(f.ast), "log"):
				t.Errorf("%s: %s: logging goes through zap", fset.Position(call.Pos()), name)
			case name == "os.Exit" && !isMain:
				t.Errorf("%s: only a command exits the process", fset.Position(call.Pos()))
			case name == "panic" && !isMain:
				panics++
			}
			return true
		})
		if panics != invariants[f.path] {
			t.Errorf("%s panics in %d places, %d are known", f.path, panics, invariants[f.path])
		}
	}
}

func importNames(f *ast.File) []string {
	var out []string
	for _, spec := range f.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		out = append(out, name)
	}
	return out
}

func callee(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		if x, ok := fn.X.(*ast.Ident); ok {
			return x.Name + "." + fn.Sel.Name
		}
	}
	return ""
}

// TestDocumented wants a comment at every exported name, and a package comment in doc.go (or in the file of the package's
// own name, where one file is the whole package).
func TestDocumented(t *testing.T) {
	hasDoc, packages := map[string]bool{}, map[string]bool{}
	for _, f := range sources(t) {
		if f.test {
			continue
		}
		packages[f.dir] = true
		if f.ast.Doc != nil && slices.Contains([]string{"doc.go", f.ast.Name.Name + ".go", "main.go"}, path.Base(f.path)) {
			hasDoc[f.dir] = true
		}
		if f.generated() || f.ast.Name.Name == "main" {
			continue
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && exportedReceiver(d) && d.Doc == nil {
					t.Errorf("%s: %s has no comment", fset.Position(d.Pos()), d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(t, d)
			}
		}
	}
	for dir := range packages {
		if !hasDoc[dir] {
			t.Errorf("package %s has no package comment in doc.go", dir)
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	for {
		switch r := x.(type) {
		case *ast.StarExpr:
			x = r.X
		case *ast.IndexExpr:
			x = r.X
		case *ast.IndexListExpr:
			x = r.X
		case *ast.Ident:
			return r.IsExported()
		default:
			return true
		}
	}
}

// undocumented reports exported types, constants and variables without a comment of their own, beside them or of their group.
func undocumented(t *testing.T, d *ast.GenDecl) {
	t.Helper()
	before := "" // a comment may speak of several names that follow each other
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
				t.Errorf("%s: %s has no comment", fset.Position(s.Pos()), s.Name.Name)
			}
		case *ast.ValueSpec:
			if s.Doc != nil {
				before = s.Doc.Text()
			}
			name := s.Names[0].Name
			if s.Names[0].IsExported() && s.Comment == nil && d.Doc == nil && s.Doc == nil && !strings.Contains(before, name) {
				t.Errorf("%s: %s has no comment", fset.Position(s.Pos()), name)
			}
		}
	}
}

// Built from parts, so that this file does not contain what it looks for.
var foreign = regexp.MustCompile(`/(?:wo` + `rk|ro` + `ot|ho` + `me/[a-z]+)/`)

// TestNoMachinePaths refuses folders of the machine something was written on.
func TestNoMachinePaths(t *testing.T) {
	for _, p := range files(t) {
		if p == "go.sum" || strings.Contains(p, "testdata/") && !isText(p) {
			continue
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if at := foreign.FindIndex(text); at != nil {
			t.Errorf("%s names a folder of some machine: %q", p, text[at[0]:min(len(text), at[1]+20)])
		}
	}
}

func isText(p string) bool {
	return slices.Contains([]string{".go", ".md", ".txt", ".py", ".json", ".jsonl", ".sh", ".yaml"}, path.Ext(p))
}

// TestNoSleep keeps tests from waiting for time to pass, where no foreign process is waited for, and from being skipped.
func TestNoSleep(t *testing.T) {
	for _, f := range sources(t) {
		if !f.test {
			continue
		}
		testing := paramTypes(f.ast)
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch name := callee(call); {
			case name == "time.Sleep" && !strings.HasPrefix(f.dir, "interop"):
				t.Errorf("%s: %s in a test", fset.Position(call.Pos()), name)
			case strings.Contains(name, ".Skip") && strings.HasPrefix(testing(call.Pos(), name), "testing."):
				t.Errorf("%s: a test that may be skipped", fset.Position(call.Pos()))
			}
			return true
		})
	}
}

// paramTypes answers, for a call like t.Skip at a place in the file, what type the innermost parameter t has there: rapid's T
// looks like testing's.
func paramTypes(f *ast.File) func(at token.Pos, name string) string {
	type param struct {
		from, to   token.Pos
		name, kind string
	}
	var params []param
	ast.Inspect(f, func(n ast.Node) bool {
		var kind *ast.FuncType
		switch fn := n.(type) {
		case *ast.FuncDecl:
			kind = fn.Type
		case *ast.FuncLit:
			kind = fn.Type
		default:
			return true
		}
		for _, field := range kind.Params.List {
			star, ok := field.Type.(*ast.StarExpr)
			if !ok {
				continue
			}
			if sel, ok := star.X.(*ast.SelectorExpr); ok {
				for _, id := range field.Names {
					params = append(params, param{n.Pos(), n.End(), id.Name, sel.X.(*ast.Ident).Name + "." + sel.Sel.Name})
				}
			}
		}
		return true
	})
	return func(at token.Pos, name string) string {
		receiver, _, _ := strings.Cut(name, ".")
		kind := ""
		for _, p := range params { // outer functions come first
			if p.name == receiver && p.from <= at && at < p.to {
				kind = p.kind
			}
		}
		return kind
	}
}
