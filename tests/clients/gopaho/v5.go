package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"
	"github.com/eclipse/paho.golang/paho/session"
	"github.com/eclipse/paho.golang/paho/session/state"
)

// peer5 is a client of paho.golang.
type peer5 struct {
	client   *paho.Client
	conn     net.Conn
	session  session.SessionManager
	messages chan message
	gone     chan struct{}
	present  bool
}

func joiner5(dial dial) join {
	return func(id string, with options) peer {
		conn, err := dial()
		mustNot(err)
		conn = packets.NewThreadSafeConn(conn)
		peer := &peer5{conn: conn, messages: make(chan message, 1000), gone: make(chan struct{}, 9)}
		peer.session = state.NewInMemory()
		if before, is := with.of.(*peer5); is {
			peer.session = before.session
		}
		peer.client = paho.NewClient(paho.ClientConfig{
			Conn:               conn,
			Session:            peer.session,
			PacketTimeout:      wait,
			OnPublishReceived:  []func(paho.PublishReceived) (bool, error){peer.received},
			OnServerDisconnect: func(*paho.Disconnect) { peer.gone <- struct{}{} },
			OnClientError:      func(error) { peer.gone <- struct{}{} },
		})
		connect := &paho.Connect{
			ClientID:   "gopaho-5-" + id,
			KeepAlive:  30,
			CleanStart: !with.keep,
			Properties: &paho.ConnectProperties{SessionExpiryInterval: &with.expiryS},
		}
		if with.will != "" {
			connect.WillMessage = &paho.WillMessage{Topic: with.will, Payload: []byte("gone"), QoS: 1}
		}
		soon, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		connack, err := peer.client.Connect(soon, connect)
		mustNot(err)
		peer.present = connack.SessionPresent
		return peer
	}
}

// allProperties is what describe makes of the properties of a sending with all of them.
const allProperties = `b=1 a=2 b=3 reply/to 0001 text/plain 1`

func describe(of *paho.PublishProperties) (text string) {
	for _, user := range of.User {
		text += user.Key + "=" + user.Value + " "
	}
	text += fmt.Sprintf("%s %x %s", of.ResponseTopic, of.CorrelationData, of.ContentType)
	if of.PayloadFormat != nil {
		text += fmt.Sprintf(" %d", *of.PayloadFormat)
	}
	if of.SubscriptionIdentifier != nil {
		text += fmt.Sprintf(" %d", *of.SubscriptionIdentifier)
	}
	return text
}

func (p *peer5) received(in paho.PublishReceived) (bool, error) {
	packet := in.Packet
	got := message{
		topic: packet.Topic, payload: string(packet.Payload), qos: packet.QoS, retain: packet.Retain,
		properties: describe(packet.Properties),
	}
	if expiry := packet.Properties.MessageExpiry; expiry != nil {
		got.expiryS = *expiry
	}
	p.messages <- got
	return true, nil
}

func (p *peer5) subscribe(filter string, qos byte, identifier int) {
	subscribe := &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: filter, QoS: qos}},
	}
	if identifier != 0 {
		subscribe.Properties = &paho.SubscribeProperties{SubscriptionIdentifier: &identifier}
	}
	soon, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := p.client.Subscribe(soon, subscribe)
	mustNot(err)
}

func (p *peer5) send(send sending, method paho.PublishMethod) {
	properties := &paho.PublishProperties{}
	if send.alias != 0 {
		properties.TopicAlias = &send.alias
	}
	if send.expiryS != 0 {
		properties.MessageExpiry = &send.expiryS
	}
	if send.all {
		isText := byte(1)
		properties.User.Add("b", "1")
		properties.User.Add("a", "2")
		properties.User.Add("b", "3")
		properties.ResponseTopic = "reply/to"
		properties.CorrelationData = []byte{0, 1}
		properties.ContentType = "text/plain"
		properties.PayloadFormat = &isText
	}
	soon, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	_, err := p.client.PublishWithOptions(soon, &paho.Publish{
		Topic: send.topic, Payload: []byte(send.payload), QoS: send.qos, Retain: send.retain,
		Properties: properties,
	}, paho.PublishOptions{Method: method})
	mustNot(err)
}

func (p *peer5) publish(send sending) { p.send(send, paho.PublishMethod_Blocking) }

func (p *peer5) start(send sending) { p.send(send, paho.PublishMethod_AsyncSend) }

func (p *peer5) inbox() chan message { return p.messages }

func (p *peer5) sessionPresent() bool { return p.present }

func (p *peer5) waitGone() {
	select {
	case <-p.gone:
	case <-time.After(wait):
		panic("it is still connected")
	}
}

func (p *peer5) leave() { mustNot(p.client.Disconnect(&paho.Disconnect{})) }

func (p *peer5) cut() { p.conn.Close() }
