package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// dial makes a connection to the broker.
type dial func() (net.Conn, error)

// dialer is for the broker at a URL, whose authority's certificate the second argument names.
func dialer(arguments []string) dial {
	at, err := url.Parse(arguments[0])
	mustNot(err)
	trust := &tls.Config{ServerName: at.Hostname()}
	if len(arguments) > 1 {
		file, err := os.ReadFile(arguments[1])
		mustNot(err)
		trust.RootCAs = x509.NewCertPool()
		must(trust.RootCAs.AppendCertsFromPEM(file), "no certificate in %s", arguments[1])
	}
	overTCP := &net.Dialer{Timeout: wait}
	return func() (net.Conn, error) {
		switch at.Scheme {
		case "mqtt":
			return overTCP.Dial("tcp", at.Host)
		case "mqtts":
			return tls.DialWithDialer(overTCP, "tcp", at.Host, trust)
		default:
			return mqtt.NewWebsocket(at.String(), trust, wait, http.Header{}, nil)
		}
	}
}
