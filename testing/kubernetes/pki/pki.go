// Package pki makes the certificates, keys and kubeconfig files of one cluster.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// validity is far longer than a test or a demonstration runs, and short enough that a forgotten key is worth nothing.
const validity = 30 * 24 * time.Hour

// Authority signs the certificates of one cluster and writes them below a directory.
type Authority struct {
	directory   string
	certificate *x509.Certificate
	key         crypto.Signer
	serial      int64
}

// Identity is what a certificate says about its holder.
type Identity struct {
	Name         string
	Organization string
	DNSNames     []string
	Addresses    []net.IP
}

// New makes an authority and writes its certificate and key as ca.crt and ca.key.
func New(directory string) (*Authority, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(1, Identity{Name: "kubenode"})
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a := &Authority{directory: directory, certificate: certificate, key: key, serial: 1}
	return a, a.write("ca", der, key)
}

// Issue signs a certificate for the identity and writes it with its key as file.crt and file.key.
func (a *Authority) Issue(file string, identity Identity) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	a.serial++
	template := template(a.serial, identity)
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return err
	}
	return a.write(file, der, key)
}

// Path names a file of the authority's directory.
func (a *Authority) Path(file string) string { return filepath.Join(a.directory, file) }

// WriteKubeconfig writes a kubeconfig that holds all it needs, so that it may be copied anywhere.
func (a *Authority) WriteKubeconfig(path, server, identity string) error {
	var encoded [3]string
	for i, file := range []string{"ca.crt", identity + ".crt", identity + ".key"} {
		content, err := os.ReadFile(a.Path(file))
		if err != nil {
			return err
		}
		encoded[i] = base64.StdEncoding.EncodeToString(content)
	}
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters:
- name: kubenode
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: %s
  user:
    client-certificate-data: %s
    client-key-data: %s
contexts:
- name: kubenode
  context: {cluster: kubenode, user: %[3]s}
current-context: kubenode
`, server, encoded[0], identity, encoded[1], encoded[2])
	return os.WriteFile(path, []byte(text), 0o600)
}

// ClientConfig is the TLS side of a client that holds an identity issued before.
func (a *Authority) ClientConfig(identity string) (*tls.Config, error) {
	return ClientConfig(a.directory, identity)
}

// ClientConfig is the same for the directory of an authority that an earlier process made.
func ClientConfig(directory, identity string) (*tls.Config, error) {
	path := func(file string) string { return filepath.Join(directory, file) }
	certificate, err := tls.LoadX509KeyPair(path(identity+".crt"), path(identity+".key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(path("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s holds no certificate", path("ca.crt"))
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: roots, MinVersion: tls.VersionTLS12}, nil
}

func template(serial int64, identity Identity) *x509.Certificate {
	subject := pkix.Name{CommonName: identity.Name}
	if identity.Organization != "" {
		subject.Organization = []string{identity.Organization}
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: big.NewInt(serial),
		Subject:      subject,
		// The clock may be set back a little between two starts on a virtual machine.
		NotBefore:   now.Add(-time.Hour),
		NotAfter:    now.Add(validity),
		DNSNames:    identity.DNSNames,
		IPAddresses: identity.Addresses,
	}
}

func (a *Authority) write(file string, certificate []byte, key *ecdsa.PrivateKey) error {
	encodedKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificatePEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(a.Path(file+".crt"), certificatePEM, 0o600); err != nil {
		return err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encodedKey})
	return os.WriteFile(a.Path(file+".key"), keyPEM, 0o600)
}
