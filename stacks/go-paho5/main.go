// go-paho5: paho.golang, MQTT 5.0; a handler per message, publishes sent without waiting.
package main

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/eclipse/paho.golang/packets"
	"github.com/eclipse/paho.golang/paho"

	"weir/stacks/line"
)

type stack struct {
	options line.Options
	counts  line.Counts
	wants   func(payload []byte) bool
	client  *paho.Client
	leaving atomic.Bool
}

// lost is called by the client, also when it disconnects on purpose.
func (s *stack) lost(err error) {
	if !s.leaving.Load() {
		line.Fail("disconnected: %s", err)
	}
}

// join connects a client.
func (s *stack) join(config paho.ClientConfig) (*paho.Client, error) {
	conn, err := net.DialTimeout("tcp", s.options.Address(), line.Wait)
	if err != nil {
		return nil, err
	}
	// The client writes from more than one goroutine.
	config.Conn = packets.NewThreadSafeConn(conn)
	config.PacketTimeout = line.Wait
	client := paho.NewClient(config)
	soon, cancel := context.WithTimeout(context.Background(), line.Wait)
	defer cancel()
	connect := &paho.Connect{ClientID: s.options.ClientID(), KeepAlive: 60, CleanStart: true}
	if _, err := client.Connect(soon, connect); err != nil {
		conn.Close()
		return nil, err
	}
	return client, nil
}

func (s *stack) joinAndSubscribe() error {
	handler := s.count
	if s.options.Workflow == "workflow" {
		handler = s.forward
	}
	client, err := s.join(paho.ClientConfig{
		OnPublishReceived: []func(paho.PublishReceived) (bool, error){handler},
		OnClientError:     s.lost,
		OnServerDisconnect: func(by *paho.Disconnect) {
			line.Fail("the broker disconnected: %d", by.ReasonCode)
		},
	})
	if err != nil {
		return err
	}
	s.client = client
	if s.options.Workflow == "publish" {
		return nil
	}
	soon, cancel := context.WithTimeout(context.Background(), line.Wait)
	defer cancel()
	_, err = client.Subscribe(soon, &paho.Subscribe{
		Subscriptions: []paho.SubscribeOptions{{Topic: s.options.In, QoS: s.options.QoS}},
	})
	return err
}

func (s *stack) count(paho.PublishReceived) (bool, error) {
	s.counts.Received.Add(1)
	return true, nil
}

func (s *stack) forward(in paho.PublishReceived) (bool, error) {
	s.counts.Received.Add(1)
	if s.wants(in.Packet.Payload) {
		s.publish(in.Packet.Payload)
	}
	return true, nil
}

func (s *stack) publish(payload []byte) {
	_, err := s.client.PublishWithOptions(context.Background(), &paho.Publish{
		Topic: s.options.Out, QoS: s.options.QoS, Payload: payload,
	}, paho.PublishOptions{Method: paho.PublishMethod_AsyncSend})
	s.counts.Publish(err)
}

func (s *stack) connectOnce(int64) {
	client, err := s.join(paho.ClientConfig{})
	if err == nil {
		err = client.Disconnect(&paho.Disconnect{})
		<-client.Done()
	}
	if err != nil {
		s.counts.Failed.Add(1)
		return
	}
	s.counts.Connects.Add(1)
}

func main() {
	options := line.Arguments()
	s := &stack{options: options}
	s.wants = options.Filter(&s.counts)
	if options.Workflow != "connect" {
		if err := s.joinAndSubscribe(); err != nil {
			line.Fail("%s", err)
		}
	}
	line.Ready("go-paho5", "github.com/eclipse/paho.golang", options)

	ctx, cancel := context.WithCancel(context.Background())
	operation := s.connectOnce
	if options.Workflow == "publish" {
		operation = func(number int64) { s.publish(line.Record(number)) }
	}
	var pacing sync.WaitGroup
	line.Serve(&s.counts, options.Workflow, func() {
		if options.IsPaced() {
			pacing.Go(func() { line.Pace(ctx, options.Rate, operation) })
		}
	})
	cancel()
	line.Within(line.Leave, pacing.Wait)
	if s.client != nil {
		s.leaving.Store(true)
		err := s.client.Disconnect(&paho.Disconnect{})
		if err != nil && !errors.Is(err, net.ErrClosed) {
			line.Fail("disconnect: %s", err)
		}
	}
	s.counts.Say(options.Workflow)
}
