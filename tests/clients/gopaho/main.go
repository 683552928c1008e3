// Go's paho runs the cells of ../README.md against a broker: paho.mqtt.golang speaks 3.1.1,
// paho.golang 5.0.
//
// Usage: gopaho URL [CAFILE]. Prints a line a cell; the exit code says whether all passed.
package main

import (
	"fmt"
	"os"
	"strings"
	"time"
)

const wait = 20 * time.Second

// options say how to connect.
type options struct {
	keep    bool   // no Clean Session, no Clean Start
	expiryS uint32 // of the session, 5.0 only
	will    string // its topic, if there is one; payload "gone", QoS 1
	of      peer   // whose session state is gone on with
}

// sending is a message to publish; what follows retain is of 5.0 only.
type sending struct {
	topic, payload string
	qos            byte
	retain         bool
	alias          uint16
	expiryS        uint32
	all            bool // with every property of the cell properties
}

// message is what came; what follows retain is of 5.0 only.
type message struct {
	topic, payload string
	qos            byte
	retain         bool
	expiryS        uint32
	properties     string // the others, as one line
}

// peer is a client whose messages and acknowledgements can be waited for.
type peer interface {
	subscribe(filter string, qos byte, identifier int)
	// publish waits for the acknowledgement; start does not.
	publish(sending)
	start(sending)
	inbox() chan message
	sessionPresent() bool
	waitGone()
	leave()
	// cut ends the connection without DISCONNECT.
	cut()
}

type join func(id string, with options) peer

// cell is one thing that must work; it panics if it does not.
type cell struct {
	name string
	run  func(join join, root string)
}

// must ends the cell with what is wrong.
func must(is bool, format string, arguments ...any) {
	if !is {
		panic(fmt.Sprintf(format, arguments...))
	}
}

func mustNot(err error) {
	if err != nil {
		panic(err)
	}
}

func get(from peer) message {
	select {
	case got := <-from.inbox():
		return got
	case <-time.After(wait):
		panic("no message within " + wait.String())
	}
}

func expect(from peer, topic, payload string, qos byte, retain bool) {
	got := get(from)
	same := got.topic == topic && got.payload == payload && got.qos == qos && got.retain == retain
	must(same, "got %+v, not %s %q QoS %d retained %v", got, topic, payload, qos, retain)
}

func leave(peers ...peer) {
	for _, peer := range peers {
		peer.leave()
	}
}

// attempt runs one cell and says what went wrong, if anything did.
func attempt(cell cell, join join, root string) (fault string) {
	defer func() {
		if what := recover(); what != nil {
			fault = strings.ReplaceAll(fmt.Sprint(what), "\n", " ")
		}
	}()
	cell.run(join, root)
	return ""
}

func main() {
	to, failed := dialer(os.Args[1:]), false
	for _, version := range []struct {
		name  string
		join  join
		cells []cell
	}{
		{"3.1.1", joiner311(to), both},
		{"5.0", joiner5(to), append(both, only5...)},
	} {
		for _, cell := range version.cells {
			name := version.name + "/" + cell.name
			if fault := attempt(cell, version.join, "gopaho/"+name); fault != "" {
				failed = true
				fmt.Println("FAIL", name, fault)
			} else {
				fmt.Println("ok", name)
			}
		}
	}
	if failed {
		os.Exit(1)
	}
}
