package node

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strings"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// Forward is `kubenode forward`: it carries loopback ports of the machine over to addresses of the cluster, until it is
// ended. Names of targets are looked up inside, for each connection.
func Forward(args []string) error {
	flags := flag.NewFlagSet("forward", flag.ExitOnError)
	s, err := parseState(flags, args)
	if err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return errors.New("usage: kubenode forward [-dir DIRECTORY] PORT=HOST:PORT...; port 0 picks a free one")
	}
	process, err := s.process()
	if err != nil {
		return err
	}
	if process == 0 {
		return errNotRunning
	}
	failed := make(chan error)
	for _, argument := range flags.Args() {
		port, target, found := strings.Cut(argument, "=")
		if !found {
			return fmt.Errorf("%q is not of the form PORT=HOST:PORT", argument)
		}
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
		if err != nil {
			return err
		}
		fmt.Printf("%s=%s\n", listener.Addr(), target)
		go func() { failed <- serve(listener, func() (net.Conn, error) { return dialInside(process, target) }) }()
	}
	return <-failed
}

// dialInside connects from a thread that has entered the cluster. A socket keeps the network it was made in, so any
// thread may use it afterwards; the thread itself ends with its goroutine, which never unlocks it.
func dialInside(process int, target string) (net.Conn, error) {
	type result struct {
		connection net.Conn
		err        error
	}
	results := make(chan result)
	go func() {
		runtime.LockOSThread()
		address, err := resolveInside(process, target)
		if err != nil {
			results <- result{nil, err}
			return
		}
		connection, err := net.DialTCP("tcp4", nil, address)
		if err != nil {
			results <- result{nil, err}
			return
		}
		results <- result{connection, nil}
	}()
	r := <-results
	return r.connection, r.err
}

// resolveInside enters the network namespace with this thread and looks the target up there.
func resolveInside(process int, target string) (*net.TCPAddr, error) {
	handle, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", process), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("the cluster is gone: %w", err)
	}
	defer unix.Close(handle)
	if err := unix.Setns(handle, unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return nil, err
	}
	if net.ParseIP(host) == nil {
		if host, err = lookInside(host); err != nil {
			return nil, err
		}
	}
	return net.ResolveTCPAddr("tcp4", net.JoinHostPort(host, port))
}

// lookInside asks the cluster's name server on this thread; the standard resolver would ask from threads that are outside.
func lookInside(host string) (string, error) {
	connection, err := net.Dial("udp4", net.JoinHostPort(dnsAddress, "53"))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	question := new(dns.Msg).SetQuestion(dns.Fqdn(host), dns.TypeA)
	answer, _, err := new(dns.Client).ExchangeWithConn(question, &dns.Conn{Conn: connection})
	if err != nil {
		return "", err
	}
	for _, record := range answer.Answer {
		if address, ok := record.(*dns.A); ok {
			return address.A.String(), nil
		}
	}
	return "", fmt.Errorf("the cluster has no address for %q; names have to be complete, such as SERVICE.NAMESPACE.svc.cluster.local", host)
}

// serve accepts connections and joins each with one that dial makes.
func serve(listener net.Listener, dial func() (net.Conn, error)) error {
	for {
		near, err := listener.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer near.Close()
			far, err := dial()
			if err != nil {
				fmt.Fprintln(os.Stderr, "kubenode:", err)
				return
			}
			defer far.Close()
			join(near, far)
		}()
	}
}

// join copies in both directions. The end of one direction is passed on, and the other goes on until its own end.
func join(near, far net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(far, near) // an error of either side ends the connection, as it would without us between
		closeWrite(far)
	}()
	_, _ = io.Copy(near, far)
	closeWrite(near)
	<-done
}

func closeWrite(connection net.Conn) {
	if tcp, ok := connection.(*net.TCPConn); ok {
		_ = tcp.CloseWrite() // the other side may be gone already
	}
}
