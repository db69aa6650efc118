package gflag

import "github.com/spf13/pflag"

// AddLogFlags registers the flags that the published programs inherit from their log library. They are accepted so that
// an existing command line keeps working; a daemon reads those it honours (log_dir, minloglevel, v, ...) from the set.
// Flags that the set has already are left alone.
func AddLogFlags(fs *pflag.FlagSet) {
	for name, usage := range map[string]string{
		"alsologtostderr":           "write log lines to stderr as well when they go to files",
		"colorlogtostderr":          "accepted and ignored: lines are not coloured",
		"drop_log_memory":           "accepted and ignored: this program's log does not fill the page cache",
		"log_prefix":                "put level, time and place before each line",
		"logtostderr":               "write log lines to stderr instead of files",
		"stop_logging_if_full_disk": "accepted and ignored",
		"symbolize_stacktrace":      "accepted and ignored: stacks are always symbolic",
	} {
		if fs.Lookup(name) == nil {
			fs.Bool(name, name == "drop_log_memory" || name == "log_prefix" || name == "symbolize_stacktrace", usage)
		}
	}
	for _, f := range []struct {
		name  string
		def   int32
		usage string
	}{
		{"logbuflevel", 0, "accepted and ignored: lines are not held back"},
		{"logbufsecs", 30, "accepted and ignored: lines are not held back"},
		{"logemaillevel", 999, "accepted and ignored: no mail is sent"},
		{"logfile_mode", 0o664, "mode of a log file"},
		{"max_log_size", 1800, "size of a log file in MB after which a new one begins"},
		{"minloglevel", 0, "lowest level that is logged: 0 info, 1 warning, 2 error, 3 fatal"},
		{"stderrthreshold", 2, "lowest level that goes to stderr as well when lines go to files"},
		{"tab_completion_columns", 80, "accepted and ignored"},
		{"v", 0, "verbosity; 1 and more adds lines"},
	} {
		if fs.Lookup(f.name) == nil {
			fs.Int32(f.name, f.def, f.usage)
		}
	}
	for _, f := range [][3]string{
		{"alsologtoemail", "", "accepted and ignored: no mail is sent"},
		{"log_backtrace_at", "", "accepted and ignored"},
		{"log_dir", "", "directory for log files; empty means stderr"},
		{"log_link", "", "accepted and ignored"},
		{"logmailer", "/bin/mail", "accepted and ignored: no mail is sent"},
		{"tab_completion_word", "", "accepted and ignored"},
		{"vmodule", "", "accepted and ignored; use --v"},
	} {
		if fs.Lookup(f[0]) == nil {
			fs.String(f[0], f[1], f[2])
		}
	}
}
