// go-paho: paho.mqtt.golang, MQTT 3.1.1; a handler per message, tokens for publishes in flight.
package main

import (
	"context"
	"sync"

	mqtt "github.com/eclipse/paho.mqtt.golang"

	"weir/stacks/line"
)

// pendingMax bounds the publishes that wait for their token.
const pendingMax = 50_000

type stack struct {
	options line.Options
	counts  line.Counts
	wants   func(payload []byte) bool
	client  mqtt.Client
	// tokens belong to publishes in flight; collect reads them.
	tokens chan mqtt.Token
	// pending has room for the publishes of handlers.
	pending chan struct{}
	waiting sync.WaitGroup
}

func newOptions(options line.Options) *mqtt.ClientOptions {
	return mqtt.NewClientOptions().
		AddBroker("tcp://" + options.Address()).
		SetClientID(options.ClientID()).
		SetProtocolVersion(4).
		SetCleanSession(true).
		SetConnectTimeout(line.Wait).
		SetAutoReconnect(false)
}

// must waits for the broker's answer.
func must(token mqtt.Token, what string) {
	if !token.WaitTimeout(line.Wait) {
		line.Fail("%s: no answer", what)
	}
	if err := token.Error(); err != nil {
		line.Fail("%s: %s", what, err)
	}
}

func (s *stack) join() {
	lost := func(_ mqtt.Client, err error) { line.Fail("disconnected: %s", err) }
	s.client = mqtt.NewClient(newOptions(s.options).SetConnectionLostHandler(lost))
	must(s.client.Connect(), "connect")
	handler := s.count
	switch s.options.Workflow {
	case "publish":
		return
	case "workflow":
		handler = s.forward
	}
	token := s.client.Subscribe(s.options.In, s.options.QoS, handler)
	must(token, "subscribe")
	if token.(*mqtt.SubscribeToken).Result()[s.options.In] > 2 {
		line.Fail("subscription refused")
	}
}

func (s *stack) count(mqtt.Client, mqtt.Message) { s.counts.Received.Add(1) }

func (s *stack) forward(client mqtt.Client, message mqtt.Message) {
	s.counts.Received.Add(1)
	if !s.wants(message.Payload()) {
		return
	}
	select {
	case s.pending <- struct{}{}:
	default:
		s.counts.Failed.Add(1)
		return
	}
	// Publish may block, and a handler must not.
	s.waiting.Go(func() {
		token := client.Publish(s.options.Out, s.options.QoS, false, message.Payload())
		token.Wait()
		s.counts.Publish(token.Error())
		<-s.pending
	})
}

func (s *stack) publish(number int64) {
	s.tokens <- s.client.Publish(s.options.Out, s.options.QoS, false, line.Record(number))
}

func (s *stack) collect() {
	for token := range s.tokens {
		token.Wait()
		s.counts.Publish(token.Error())
	}
}

func (s *stack) connectOnce(int64) {
	client := mqtt.NewClient(newOptions(s.options))
	token := client.Connect()
	if !token.WaitTimeout(line.Wait) || token.Error() != nil {
		s.counts.Failed.Add(1)
		return
	}
	client.Disconnect(0)
	s.counts.Connects.Add(1)
}

func main() {
	options := line.Arguments()
	s := &stack{
		options: options,
		tokens:  make(chan mqtt.Token, pendingMax),
		pending: make(chan struct{}, pendingMax),
	}
	s.wants = options.Filter(&s.counts)
	if options.Workflow != "connect" {
		s.join()
	}
	line.Ready("go-paho", "github.com/eclipse/paho.mqtt.golang", options)

	ctx, cancel := context.WithCancel(context.Background())
	operation := s.connectOnce
	if options.Workflow == "publish" {
		operation = s.publish
		s.waiting.Go(s.collect)
	}
	var pacing sync.WaitGroup
	line.Serve(&s.counts, options.Workflow, func() {
		if options.IsPaced() {
			pacing.Go(func() { line.Pace(ctx, options.Rate, operation) })
		}
	})
	cancel()
	line.Within(line.Leave, func() {
		pacing.Wait()
		close(s.tokens)
		s.waiting.Wait()
	})
	if s.client != nil {
		s.client.Disconnect(250)
	}
	s.counts.Say(options.Workflow)
}
