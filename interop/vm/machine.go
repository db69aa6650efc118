package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Errors of Run besides those of starting.
var (
	// ErrLimit: the job was not finished within its limit.
	ErrLimit = errors.New("the emulated machine has not finished in time")
	// ErrClock: the guest's clock ran at another rate than the host's, so every time-out inside is worth nothing. Boot again.
	ErrClock = errors.New("the clock of the emulated machine runs wild")
	// ErrGuest: the guest did not come up or ended without a status.
	ErrGuest = errors.New("the emulated machine failed")
)

// Machine boots guests from one cache.
type Machine struct {
	Cache  string    // folder for what is fetched
	Module string    // root of the Go module, where the guest's first process is compiled
	Log    io.Writer // progress; may be nil
}

// Output is where a guest's output goes. Nil discards.
type Output struct {
	Out, Err io.Writer
	Console  io.Writer // the guest's console, after the end; without it the last lines of a failed guest are in the error
}

// readyLimit bounds the boot under KVM, where a host that pretends to have it leaves the guest hanging; under emulation
// the limit of the job counts.
const readyLimit = 30 * time.Second

// Run boots a guest, runs the job's command in it and answers with its exit status.
func (m *Machine) Run(ctx context.Context, job Job, out Output) (status int, err error) {
	job = job.withDefaults(runtime.NumCPU())
	if err := job.check(); err != nil {
		return 0, err
	}
	if err := m.Prepare(ctx); err != nil {
		return 0, err
	}
	work, err := os.MkdirTemp("", "vm-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(work)
	if err := m.initramfs(ctx, job, work); err != nil {
		return 0, err
	}
	if job.Accel == "kvm" || job.Accel == "auto" && kvmLikely() {
		status, err = m.boot(ctx, job, work, true, out)
		if job.Accel == "kvm" || !errors.Is(err, errNeverReady) {
			return status, err
		}
		fmt.Fprintf(m.log(), "  KVM does not carry the guest (%v); emulating\n", err)
	}
	return m.boot(ctx, job, work, false, out)
}

// errNeverReady: the guest ended or hung before the command was started.
var errNeverReady = errors.New("it never became ready")

// kvmLikely: hosts exist that offer the device without the processor's own virtualisation.
func kvmLikely() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	text, _ := os.ReadFile("/proc/cpuinfo")
	for _, flag := range bytes.Fields(text) {
		if s := string(flag); s == "vmx" || s == "svm" {
			return true
		}
	}
	return false
}

// initramfs joins the archive of modules with one that holds the first process and its orders.
func (m *Machine) initramfs(ctx context.Context, job Job, work string) error {
	program := filepath.Join(work, "init")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, "./interop/vm/guest")
	cmd.Dir = m.Module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, text)
	}
	first, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	orders, err := json.Marshal(job)
	if err != nil {
		return err
	}
	cached, ok := m.cached()
	if !ok {
		return errors.New("the kernel has vanished from the cache")
	}
	modules, err := os.ReadFile(cached.modules)
	if err != nil {
		return err
	}
	var own cpio
	own.file("init", 0o755, first)
	own.file(JobFile, 0o644, orders)
	return os.WriteFile(filepath.Join(work, "initramfs"), append(modules, own.end()...), 0o644)
}

// boot runs one guest to its end.
func (m *Machine) boot(ctx context.Context, job Job, work string, kvm bool, out Output) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ports, err := openPorts()
	if err != nil {
		return 0, err
	}
	defer ports.close()
	var complaints bytes.Buffer
	console := filepath.Join(work, "console")
	cached, _ := m.cached()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", arguments(job, cached.image, filepath.Join(work, "initramfs"), console, kvm)...)
	cmd.Stdout, cmd.Stderr = &complaints, &complaints
	cmd.ExtraFiles = ports.theirs()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	runtime.LockOSThread() // the signal comes when the thread ends that started the child
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ports.started()
	w := &watch{cancel: cancel}
	if kvm {
		w.unready = time.AfterFunc(readyLimit, func() { cancel(errNeverReady) })
	}
	var copying sync.WaitGroup
	var limiting sync.WaitGroup
	running, stop := context.WithCancel(ctx)
	limiting.Go(func() { keepLimit(running, cancel, cmd.Process.Pid, job.Limit) })
	copying.Go(func() { drain(out.Out, ports.ours[0]) })
	copying.Go(func() { drain(out.Err, ports.ours[1]) })
	copying.Go(func() { w.follow(ports.ours[2]) })
	ended := cmd.Wait()
	stop()
	limiting.Wait()
	copying.Wait() // the ports end with QEMU
	text, _ := os.ReadFile(console)
	if out.Console != nil {
		_, _ = out.Console.Write(append(text, complaints.Bytes()...))
	}
	status, err := w.outcome(context.Cause(ctx), ended)
	if err != nil && out.Console == nil {
		err = fmt.Errorf("%w; console and QEMU end with:\n%s", err, lastLines(append(text, complaints.Bytes()...), 30))
	}
	return status, err
}

// kernelLine: without tsc=reliable a busy host makes the kernel give up the time-stamp counter for a timer whose every reading
// leaves the emulated processor, which makes programs that look at the clock several times slower. The price is that the
// counter's rate, measured at boot, may be wrong; the reports of time show that.
const kernelLine = "console=ttyS0 quiet panic=-1 mitigations=off no_timer_check random.trust_cpu=on tsc=reliable " +
	"transparent_hugepage=never nowatchdog audit=0"

// emulatedCPU is all that QEMU emulates, less what it emulates slowly. A processor that claims fast string instructions (erms,
// fsrm) has kernel and libraries copy memory by them, byte by byte here: ten times slower than loops over words. Wide
// registers cost more than they save. Addresses of five levels (la57) only lengthen each walk of the page tables.
const emulatedCPU = "max,la57=off,-erms,-fsrm,-avx,-avx2"

// arguments of QEMU. The ports are descriptors 3, 4 and 5.
func arguments(job Job, image, initramfs, console string, kvm bool) []string {
	args := []string{
		"-M", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-smp", strconv.Itoa(job.CPUs), "-m", strconv.Itoa(job.MemMiB), "-kernel", image, "-initrd", initramfs,
		"-append", kernelLine,
		"-chardev", "file,id=console,path=" + comma(console), "-serial", "chardev:console",
		"-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
		"-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap",
		"-device", "virtio-9p-pci,fsdev=host,mount_tag=host",
	}
	for i, name := range portNames {
		fd := strconv.Itoa(3 + i)
		args = append(args, "-chardev", "file,id="+name+",path=/proc/self/fd/"+fd,
			"-device", "virtserialport,chardev="+name+",name="+name)
	}
	if kvm {
		return append(args, "-accel", "kvm", "-cpu", "host")
	}
	return append(args, "-accel", "tcg,thread=multi", "-cpu", emulatedCPU)
}

// comma doubles the commas of a path, which would end it for QEMU.
func comma(path string) string {
	return string(bytes.ReplaceAll([]byte(path), []byte(","), []byte(",,")))
}

// lastLines is the end of a text.
func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
