package controlplane

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"kubenode/pki"
)

// readyTimeout bounds the wait for an API server on a busy machine; it takes about four seconds on an idle one.
const readyTimeout = 3 * time.Minute

// Command is `kubenode apiserver`: a real API server for tests that need no node. It prints the path of a kubeconfig
// when it is ready, and ends with a signal or, when asked to watch it, with the end of its standard input.
func Command(args []string) error {
	flags := flag.NewFlagSet("apiserver", flag.ExitOnError)
	directory := flags.String("dir", "", "directory for data, certificates and logs; emptied first")
	keep := flags.Bool("keep", false, "go on with what an earlier run left in the directory: data, certificates, ports")
	controllers := flags.String("controllers", "", "controllers to run besides, such as *; empty for none")
	watchInput := flags.Bool("watch-stdin", false, "end when the standard input ends, so as not to outlive the caller")
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	if *directory == "" {
		return errors.New("apiserver needs -dir")
	}
	path, err := filepath.Abs(*directory)
	if err != nil {
		return err
	}
	begin := prepare
	if *keep {
		begin = resume
	}
	c, err := begin(path)
	if err != nil {
		return err
	}
	output := os.Stdout
	if err := redirectLogs(filepath.Join(path, "apiserver.log")); err != nil {
		return err
	}
	endWith(*watchInput)
	go func() {
		kubeconfig := filepath.Join(path, "kubeconfig")
		if err := awaitReady(c); err != nil {
			fmt.Fprintf(output, "error: %v; see %s\n", err, filepath.Join(path, "apiserver.log"))
			os.Exit(1)
		}
		if *controllers != "" {
			go runControllers(path, kubeconfig, *controllers)
		}
		fmt.Fprintln(output, kubeconfig)
	}()
	return c.run()
}

// portsFile holds the ports of a control plane, for a later run with the same data.
const portsFile = "ports"

// prepare empties the directory, chooses ports, and writes certificates and the kubeconfig.
func prepare(path string) (*config, error) {
	for _, part := range []string{"etcd", "pki", "kubeconfig", portsFile, "apiserver.log", "controllers.log"} {
		if err := os.RemoveAll(filepath.Join(path, part)); err != nil {
			return nil, err
		}
	}
	authority, err := pki.NewCluster(filepath.Join(path, "pki"), net.IPv4(127, 0, 0, 1))
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return nil, err
	}
	c := configOf(path, [3]int(ports))
	server := fmt.Sprintf("https://127.0.0.1:%d", c.port)
	if err := authority.WriteKubeconfig(filepath.Join(path, "kubeconfig"), server, pki.Admin); err != nil {
		return nil, err
	}
	text := fmt.Sprintf("%d %d %d\n", c.port, c.etcdPort, c.peerPort)
	return c, os.WriteFile(filepath.Join(path, portsFile), []byte(text), 0o600)
}

// resume takes up what prepare left, and what was stored since.
func resume(path string) (*config, error) {
	text, err := os.ReadFile(filepath.Join(path, portsFile))
	if err != nil {
		return nil, fmt.Errorf("nothing to go on with: %w", err)
	}
	var ports [3]int
	if _, err := fmt.Sscan(string(text), &ports[0], &ports[1], &ports[2]); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(path, portsFile), err)
	}
	return configOf(path, ports), nil
}

// configOf is a control plane in a directory; the ports are those of the API server, of etcd and of its peers.
func configOf(path string, ports [3]int) *config {
	return &config{
		data: filepath.Join(path, "etcd"), pki: filepath.Join(path, "pki"), address: "127.0.0.1",
		port: ports[0], etcdPort: ports[1], peerPort: ports[2],
	}
}

// freePorts finds ports that nobody listens on. They are held together first, so that they differ.
func freePorts(count int) ([]int, error) {
	ports := make([]int, 0, count)
	for range count {
		listener, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		address, ok := listener.Addr().(*net.TCPAddr)
		if !ok {
			return nil, fmt.Errorf("%v is not a TCP address", listener.Addr())
		}
		ports = append(ports, address.Port)
	}
	return ports, nil
}

// redirectLogs sends the standard error, where all parts log to, into a file.
func redirectLogs(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return syscall.Dup3(int(file.Fd()), int(os.Stderr.Fd()), 0)
}

// endWith ends the process at once on a signal: there is no state worth an orderly end.
func endWith(standardInput bool) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		os.Exit(0)
	}()
	if standardInput {
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin) // an error of the input is its end as well
			os.Exit(0)
		}()
	}
}

func awaitReady(c *config) error {
	settings, err := pki.ClientConfig(c.pki, pki.Admin)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: settings}, Timeout: 5 * time.Second}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	for ctx.Err() == nil {
		response, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d/readyz", c.port))
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the API server was not ready after %v", readyTimeout)
}

// runControllers runs the controller manager as a process of its own, which dies with this one.
func runControllers(path, kubeconfig, controllers string) {
	// The kernel ties the death of the child to this thread, so the thread has to stay.
	runtime.LockOSThread()
	log, err := os.Create(filepath.Join(path, "controllers.log"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "no controllers:", err)
		return
	}
	file := func(name string) string { return filepath.Join(path, "pki", name) }
	command := exec.Command("/proc/self/exe", "kube-controller-manager",
		"--kubeconfig="+kubeconfig, "--controllers="+controllers, "--leader-elect=false", "--secure-port=0",
		"--service-account-private-key-file="+file(pki.ServiceAccounts+".key"), "--root-ca-file="+file("ca.crt"),
		"--kube-api-qps=500", "--kube-api-burst=1000")
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	fmt.Fprintln(os.Stderr, "the controllers ended:", command.Run())
}
