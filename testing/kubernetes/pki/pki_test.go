package pki

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIssuedCertificateServesItsNameAndAddressOnly(t *testing.T) {
	authority, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	server := Identity{Name: "server", DNSNames: []string{"kubernetes"}, Addresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	for file, identity := range map[string]Identity{"server": server, "admin": {Name: "admin", Organization: "system:masters"}} {
		if err := authority.Issue(file, identity); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]bool{"kubernetes": true, "127.0.0.1": true, "elsewhere": false} {
		if got := handshake(t, authority, name); (got == nil) != want {
			t.Errorf("handshake with %s: %v", name, got)
		}
	}
}

// handshake connects a client that wants the name with a server that holds the certificate "server".
func handshake(t *testing.T, authority *Authority, name string) error {
	t.Helper()
	client, err := authority.ClientConfig("admin")
	if err != nil {
		t.Fatal(err)
	}
	client.ServerName = name
	server, err := authority.ClientConfig("server")
	if err != nil {
		t.Fatal(err)
	}
	server.ClientCAs, server.ClientAuth = server.RootCAs, tls.RequireAndVerifyClientCert
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	go tls.Server(far, server).Handshake()
	return tls.Client(near, client).Handshake()
}

func TestKubeconfigHoldsServerAndNoPaths(t *testing.T) {
	authority, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := authority.Issue("admin", Identity{Name: "admin"}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := authority.WriteKubeconfig(path, "https://127.0.0.1:6443", "admin"); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(content); !strings.Contains(text, "server: https://127.0.0.1:6443") || strings.Contains(text, authority.Path("")) {
		t.Errorf("kubeconfig: %s", text)
	}
}
