package etcdkv

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"mooncake/internal/limits"
)

// SystemCA in place of a file takes the certificate authorities of the system.
const SystemCA = "system"

// PasswordEnv is the variable that may hold the password: command lines are seen by everybody on a machine.
const PasswordEnv = "MOONCAKE_ETCD_PASSWORD"

// Access says how etcd is reached. The zero value is in the clear and as nobody. Error texts name the flags that both
// daemons have for the fields.
type Access struct {
	// CACert is the file of the authorities that the members' certificates must come from, or SystemCA.
	CACert string
	// Cert and Key are the files of this process's own certificate, where etcd asks for one. They are read again with
	// every connection, so that they may be renewed.
	Cert, Key string
	// User is who calls; empty: nobody, or who the certificate says.
	User string
	// PasswordFile holds the password of User; where it is empty Password counts.
	PasswordFile string
	Password     string
}

// Check reads what the files hold and says in one line what is wrong.
func (a *Access) Check() error {
	_, _, err := a.load()
	return err
}

// Flags lists what is set as flags, but for the password.
func (a *Access) Flags(add func(flag string, value any)) {
	for _, f := range [...]struct{ flag, value string }{
		{"etcd_cacert", a.CACert}, {"etcd_cert", a.Cert}, {"etcd_key", a.Key}, {"etcd_user", a.User}, {"etcd_password_file", a.PasswordFile},
	} {
		if f.value != "" {
			add(f.flag, f.value)
		}
	}
}

// load gives the transport, nil in the clear, and the password.
func (a *Access) load() (transport *tls.Config, password string, err error) {
	switch {
	case (a.Cert == "") != (a.Key == ""):
		return nil, "", fmt.Errorf("--etcd_cert=%s and --etcd_key=%s go together: one of them is missing", a.Cert, a.Key)
	case a.User == "" && a.PasswordFile != "":
		return nil, "", fmt.Errorf("--etcd_password_file=%s needs --etcd_user", a.PasswordFile)
	}
	if password, err = a.password(); err != nil {
		return nil, "", err
	}
	if a.CACert == "" && a.Cert == "" {
		return nil, password, nil
	}
	transport = &tls.Config{MinVersion: tls.VersionTLS12}
	if a.CACert != "" && a.CACert != SystemCA {
		text, err := os.ReadFile(a.CACert)
		if err != nil {
			return nil, "", fmt.Errorf("--etcd_cacert: %w", err)
		}
		if transport.RootCAs = x509.NewCertPool(); !transport.RootCAs.AppendCertsFromPEM(text) {
			return nil, "", fmt.Errorf("--etcd_cacert=%s holds no certificate in PEM form", a.CACert)
		}
	}
	if a.Cert != "" {
		own := func() (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(a.Cert, a.Key)
			if err != nil {
				return nil, fmt.Errorf("--etcd_cert=%s, --etcd_key=%s: %w", a.Cert, a.Key, err)
			}
			return &pair, nil
		}
		if _, err := own(); err != nil {
			return nil, "", err
		}
		transport.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return own() }
	}
	return transport, password, nil
}

func (a *Access) password() (string, error) {
	if a.User == "" {
		return "", nil
	}
	if a.PasswordFile == "" {
		if a.Password == "" {
			return "", fmt.Errorf("--etcd_user=%s has no password: give --etcd_password_file, or %s in the environment", a.User, PasswordEnv)
		}
		return a.Password, nil
	}
	text, err := os.ReadFile(a.PasswordFile)
	if err != nil {
		return "", fmt.Errorf("--etcd_password_file: %w", err)
	}
	password := strings.TrimRight(string(text), "\r\n")
	if password == "" || len(password) > limits.EtcdPasswordBytes {
		return "", fmt.Errorf("--etcd_password_file=%s holds %d characters, want 1 to %d", a.PasswordFile, len(password), limits.EtcdPasswordBytes)
	}
	return password, nil
}

// ErrDenied says that the user may not do what was asked. It does not pass by waiting.
var ErrDenied = errors.New("etcd denies it")

// ErrRefused says that a member refuses this process, or this process the member: a certificate, the user or its password
// is wrong. It does not pass by waiting.
var ErrRefused = errors.New("refused")
