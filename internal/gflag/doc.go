// Package gflag reads a command line in the spelling of Google's flag library into a pflag.FlagSet.
//
// It owns the grammar and the wording of complaints; it refuses to know any flag but those that every program of the kind has
// (its own and those of the logging library, Glog), and it never exits the process or reads the process's own arguments.
// AddIdle declares flags that a program accepts and does nothing with. The grammar, as the published master understands it:
//
//   - one dash or two; '-' and '_' in a name are the same; the last of repeated flags wins;
//   - --flag=value or --flag value; a bool takes a value only after '=' (--flag false makes it true, and "false" is then
//     a stray argument), and --noflag makes it false;
//   - integers in decimal or 0x hexadecimal; bools 1 t true y yes 0 f false n no, in any case;
//   - stray arguments are ignored, flags after them still count; "--" ends the flags;
//   - --flagfile=FILE reads one --flag=value per line, '#' comments, and lines without a dash that are patterns of
//     program names: what follows them holds only for programs that match;
//   - --fromenv=a,b takes FLAGS_a and FLAGS_b from the environment and insists on them, --tryfromenv does not insist;
//   - --undefok=a,b forgives flags of those names that do not exist;
//   - --help and its sisters print the flags and end with exit code 1, --version ends with 0.
//
// Parse returns what to do; Handle does it on two writers:
//
//	cmd := &cobra.Command{Use: "mooncake-master", DisableFlagParsing: true}
//	port := cmd.Flags().Int32("rpc_port", 50051, "TCP port of the RPC service")
//	cmd.Run = func(cmd *cobra.Command, args []string) {
//		p := gflag.Program{Name: "mooncake-master", Usage: "...", Version: "..."}
//		if code, ended := gflag.Handle(cmd.Flags(), args, p, os.Stdout, os.Stderr); ended {
//			os.Exit(code)
//		}
//		serve(*port)
//	}
//
// Lock order: none; a FlagSet belongs to the goroutine that starts the program.
package gflag
