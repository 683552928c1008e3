// Package line is what the Go stacks share: arguments, counts, commands on stdin, pace, JSON, a
// record to send. The line protocol is described in ../../README.md.
package line

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// Wait bounds the wait for an answer of the broker.
	Wait = 10 * time.Second
	// Leave bounds, at `stop`, the wait for acknowledgements.
	Leave = 2 * time.Second

	tick   = time.Millisecond
	nFirst = 1_000_000_000

	// 300 bytes with the ten digits of `n` and the closing brace.
	record = `{"t":1521028800,"f":1073741825,"tp":"ud","pos":{"y":53.9045398,"x":27.5615244,"z":220,` +
		`"s":62,"c":184,"sc":11},"i":3,"o":0,"p":{"mcc":257,"mnc":2,"lac":10471,"cell_id":55023,` +
		`"gsm":21,"pwr_ext":13.842,"pwr_int":4.103,"odo":48213.671,"hdop":1,"temp":21.5,` +
		`"fuel":47.25,"rpm":1840,"ign":1},"n":`
)

// Options are the arguments of an adapter.
type Options struct {
	Host, Workflow, In, Out, JSON string
	Port                          int
	QoS                           byte
	Rate                          float64
}

// Arguments reads the command line; a mistake in it ends the program.
func Arguments() Options {
	var options Options
	var qos uint
	flag.StringVar(&options.Host, "host", "127.0.0.1", "host of the broker")
	flag.IntVar(&options.Port, "port", 1883, "port of the broker")
	flag.StringVar(&options.Workflow, "workflow", "", "subscribe, workflow, publish or connect")
	flag.StringVar(&options.In, "in", "ud/#", "topic filter to subscribe to")
	flag.StringVar(&options.Out, "out", "out", "topic to publish to")
	flag.UintVar(&qos, "qos", 0, "0 or 1")
	flag.Float64Var(&options.Rate, "rate", 0, "operations a second of publish and connect")
	flag.StringVar(&options.JSON, "json", "encoding/json", "encoding/json or encoding/json-any")
	flag.Parse()
	options.QoS = byte(qos)
	paced := options.IsPaced()
	switch {
	case !paced && options.Workflow != "subscribe" && options.Workflow != "workflow":
		Fail("no such workflow: %s", options.Workflow)
	case paced && options.Rate <= 0:
		Fail("--rate must be above 0 for the workflow %s", options.Workflow)
	case qos > 1:
		Fail("--qos is 0 or 1")
	case options.JSON != "encoding/json" && options.JSON != "encoding/json-any":
		Fail("no such JSON library: %s", options.JSON)
	}
	return options
}

// Address is where the broker is.
func (o Options) Address() string { return net.JoinHostPort(o.Host, strconv.Itoa(o.Port)) }

// IsPaced says whether the workflow has a rate of its own.
func (o Options) IsPaced() bool { return o.Workflow == "publish" || o.Workflow == "connect" }

// ClientID identifies this process.
func (o Options) ClientID() string { return fmt.Sprintf("stack-%d", os.Getpid()) }

// Fail ends the program with an error.
func Fail(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", arguments...)
	os.Exit(1)
}

// Counts are what the adapter has done.
type Counts struct {
	Received, Matched, Published, Failed, Connects atomic.Int64
}

// Say prints them.
func (c *Counts) Say(workflow string) {
	line := fmt.Sprintf("counts received=%d matched=%d published=%d failed=%d",
		c.Received.Load(), c.Matched.Load(), c.Published.Load(), c.Failed.Load())
	if workflow == "connect" {
		line += fmt.Sprintf(" connects=%d", c.Connects.Load())
	}
	fmt.Println(line)
}

// Publish counts a publish by how it ended.
func (c *Counts) Publish(err error) {
	if err != nil {
		c.Failed.Add(1)
	} else {
		c.Published.Add(1)
	}
}

// Ready prints that the adapter is ready, with the versions of a module and of the runtime.
func Ready(name, module string, options Options) {
	version := "unknown"
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range build.Deps {
			if dependency.Path == module {
				version = strings.TrimPrefix(dependency.Version, "v")
			}
		}
	}
	library := module[strings.LastIndex(module, "/")+1:] + "-" + version
	goes := strings.TrimPrefix(runtime.Version(), "go")
	fmt.Printf("ready %s %s go-%s %s-%s\n", name, library, goes, options.JSON, goes)
}

// Serve reads commands until `stop` or the end of stdin; calls start at the first `start`.
func Serve(counts *Counts, workflow string, start func()) {
	started := false
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch command := strings.TrimSpace(lines.Text()); command {
		case "start":
			if !started {
				started = true
				start()
			}
		case "counts":
			counts.Say(workflow)
		case "stop":
			return
		case "":
		default:
			fmt.Fprintf(os.Stderr, "no such command: %s\n", command)
		}
	}
}

// Pace is an open loop until the context ends: it calls operation when it is due, and late ones at
// once.
func Pace(ctx context.Context, rate float64, operation func(number int64)) {
	begin, number := time.Now(), int64(0)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for ctx.Err() == nil {
		due := int64(time.Since(begin).Seconds()*rate) + 1
		for ; number < due && ctx.Err() == nil; number++ {
			operation(number)
		}
		<-ticker.C
	}
}

// Record is the payload with the number n.
func Record(number int64) []byte {
	payload := make([]byte, 0, 300)
	payload = append(payload, record...)
	payload = strconv.AppendInt(payload, nFirst+number, 10)
	return append(payload, '}')
}

// cells are the needed fields; encoding/json skips the others.
type cells struct {
	P struct {
		MCC    json.RawMessage `json:"mcc"`
		MNC    json.RawMessage `json:"mnc"`
		LAC    json.RawMessage `json:"lac"`
		CellID json.RawMessage `json:"cell_id"`
	} `json:"p"`
}

// Filter says whether the record in a payload has a cell, and counts.
func (o Options) Filter(counts *Counts) func(payload []byte) bool {
	hasCell := typed
	if o.JSON == "encoding/json-any" {
		hasCell = tree
	}
	return func(payload []byte) bool {
		has, err := hasCell(payload)
		// JSON of another shape is not a failure.
		var shape *json.UnmarshalTypeError
		if err != nil && !errors.As(err, &shape) {
			counts.Failed.Add(1)
		} else if has {
			counts.Matched.Add(1)
		}
		return has
	}
}

func typed(payload []byte) (bool, error) {
	var record cells
	if err := json.Unmarshal(payload, &record); err != nil {
		return false, err
	}
	p := &record.P
	return p.MCC != nil && p.MNC != nil && p.LAC != nil && p.CellID != nil, nil
}

func tree(payload []byte) (bool, error) {
	var record map[string]any
	if err := json.Unmarshal(payload, &record); err != nil {
		return false, err
	}
	p, _ := record["p"].(map[string]any)
	for _, name := range []string{"mcc", "mnc", "lac", "cell_id"} {
		if _, has := p[name]; !has {
			return false, nil
		}
	}
	return true, nil
}

// Within calls wait and returns when wait does, or after the given time.
func Within(limit time.Duration, wait func()) {
	done := make(chan struct{})
	go func() {
		wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(limit):
		fmt.Fprintln(os.Stderr, "left with publishes unacknowledged")
	}
}
