package main

import (
	"net"
	"net/url"
	"time"

	mqtt "github.com/eclipse/paho.mqtt.golang"
)

// peer311 is a client of paho.mqtt.golang.
type peer311 struct {
	client   mqtt.Client
	conn     net.Conn
	messages chan message
	gone     chan error
	present  bool
}

func joiner311(dial dial) join {
	return func(id string, with options) peer {
		peer := &peer311{messages: make(chan message, 1000), gone: make(chan error, 1)}
		options := mqtt.NewClientOptions().
			// Not asked: the connection is made below.
			AddBroker("tcp://broker").
			SetClientID("gopaho-4-" + id).
			SetProtocolVersion(4).
			SetCleanSession(!with.keep).
			SetKeepAlive(30 * time.Second).
			// Nobody comes back by himself.
			SetAutoReconnect(false).
			SetCustomOpenConnectionFn(func(*url.URL, mqtt.ClientOptions) (net.Conn, error) {
				conn, err := dial()
				peer.conn = conn
				return conn, err
			}).
			SetConnectionLostHandler(func(_ mqtt.Client, err error) { peer.gone <- err }).
			SetDefaultPublishHandler(func(_ mqtt.Client, got mqtt.Message) {
				peer.messages <- message{
					topic: got.Topic(), payload: string(got.Payload()), qos: got.Qos(),
					retain: got.Retained(),
				}
			})
		if with.will != "" {
			options.SetWill(with.will, "gone", 1, false)
		}
		peer.client = mqtt.NewClient(options)
		token := peer.client.Connect()
		done(token)
		peer.present = token.(*mqtt.ConnectToken).SessionPresent()
		return peer
	}
}

// done waits for what the broker answers.
func done(token mqtt.Token) {
	must(token.WaitTimeout(wait), "no answer within %s", wait)
	mustNot(token.Error())
}

func (p *peer311) subscribe(filter string, qos byte, _ int) {
	token := p.client.Subscribe(filter, qos, nil)
	done(token)
	granted := token.(*mqtt.SubscribeToken).Result()[filter]
	must(granted <= 2, "refused: %d", granted)
}

func (p *peer311) token(send sending) mqtt.Token {
	return p.client.Publish(send.topic, send.qos, send.retain, send.payload)
}

func (p *peer311) publish(send sending) { done(p.token(send)) }

func (p *peer311) start(send sending) { p.token(send) }

func (p *peer311) inbox() chan message { return p.messages }

func (p *peer311) sessionPresent() bool { return p.present }

func (p *peer311) waitGone() {
	select {
	case <-p.gone:
	case <-time.After(wait):
		panic("it is still connected")
	}
}

// leave gives what is under way a quarter of a second at most.
func (p *peer311) leave() { p.client.Disconnect(250) }

func (p *peer311) cut() { p.conn.Close() }
