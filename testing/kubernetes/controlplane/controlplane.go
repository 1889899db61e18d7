// Package controlplane runs etcd and the API server in one process, which saves a small cluster a process and a second.
package controlplane

import (
	"flag"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"time"

	"go.etcd.io/etcd/server/v3/embed"

	"kubenode/components"
	"kubenode/pki"
)

// config is what one control plane needs to know.
type config struct {
	data     string // directory of etcd
	pki      string // directory of pki.NewCluster
	address  string // where the API server listens besides loopback
	port     int    // of the API server
	etcdPort int
	peerPort int
	hasNode  bool // there are pods that reach the API server through its service
}

// Serve is the control plane of a node; its arguments come from the node package.
func Serve(args []string) error {
	var c config
	flags := flag.NewFlagSet("control-plane", flag.ExitOnError)
	flags.StringVar(&c.data, "data", "", "directory of etcd")
	flags.StringVar(&c.pki, "pki", "", "directory of the certificates")
	flags.StringVar(&c.address, "address", "", "address of the node")
	flags.IntVar(&c.port, "port", 6443, "port of the API server")
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	c.etcdPort, c.peerPort, c.hasNode = 2379, 2380, true
	return c.run()
}

// run returns when the API server ends.
func (c *config) run() error {
	etcd, err := c.startEtcd()
	if err != nil {
		return fmt.Errorf("cannot start etcd: %w", err)
	}
	defer etcd.Close()
	if status := components.Run("kube-apiserver", c.apiServerArguments()); status != 0 {
		return fmt.Errorf("the API server ended with status %d", status)
	}
	return nil
}

func (c *config) startEtcd() (*embed.Etcd, error) {
	client, peer := loopbackURL(c.etcdPort), loopbackURL(c.peerPort)
	settings := embed.NewConfig()
	settings.Dir = c.data
	settings.ListenClientUrls, settings.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	settings.ListenPeerUrls, settings.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	settings.InitialCluster = settings.InitialClusterFromName(settings.Name)
	// The data does not outlive the cluster, so there is nothing to protect from a power cut.
	settings.UnsafeNoFsync = true
	// A member alone wins its election as soon as the time for others to call is over.
	settings.TickMs, settings.ElectionMs = 20, 200
	settings.LogLevel = "warn"
	settings.WarningUnaryRequestDuration = time.Second
	settings.LogOutputs = []string{"stderr"}
	etcd, err := embed.StartEtcd(settings)
	if err != nil {
		return nil, err
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-etcd.Err():
		return nil, err
	}
}

func (c *config) apiServerArguments() []string {
	file := func(name string) string { return filepath.Join(c.pki, name) }
	arguments := []string{
		"--etcd-servers=" + "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(c.etcdPort)),
		"--advertise-address=" + c.address,
		"--secure-port=" + strconv.Itoa(c.port),
		"--service-cluster-ip-range=10.96.0.0/16",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		"--profiling=false",
		"--client-ca-file=" + file("ca.crt"),
		"--tls-cert-file=" + file(pki.APIServer+".crt"),
		"--tls-private-key-file=" + file(pki.APIServer+".key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + file(pki.ServiceAccounts+".crt"),
		"--service-account-signing-key-file=" + file(pki.ServiceAccounts+".key"),
		"--requestheader-client-ca-file=" + file("ca.crt"),
		"--requestheader-allowed-names=" + pki.FrontProxy,
		"--requestheader-username-headers=X-Remote-User",
		"--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file(pki.FrontProxy+".crt"),
		"--proxy-client-key-file=" + file(pki.FrontProxy+".key"),
	}
	if !c.hasNode {
		// A loopback address is no endpoint of a service, and nobody would use it.
		return append(arguments, "--bind-address=127.0.0.1", "--endpoint-reconciler-type=none")
	}
	return append(arguments,
		"--bind-address=0.0.0.0",
		"--kubelet-preferred-address-types=InternalIP",
		"--kubelet-certificate-authority="+file("ca.crt"),
		"--kubelet-client-certificate="+file(pki.Admin+".crt"),
		"--kubelet-client-key="+file(pki.Admin+".key"),
	)
}

func loopbackURL(port int) url.URL {
	return url.URL{Scheme: "http", Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
}
