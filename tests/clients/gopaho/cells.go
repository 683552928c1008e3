package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

var both = []cell{
	{"qos", qos}, {"order", order}, {"retained", retained}, {"will", will}, {"resume", resume},
	{"shared", shared}, {"takeover", takeover},
}

var only5 = []cell{{"aliases", aliases}, {"properties", properties}, {"expiry", expiry}}

func qos(join join, root string) {
	sub, pub := join("sub", options{}), join("pub", options{})
	for granted := range byte(3) {
		topic := fmt.Sprintf("%s/%d", root, granted)
		sub.subscribe(topic, granted, 0)
		for sent := range byte(3) {
			payload := strconv.Itoa(int(sent))
			pub.publish(sending{topic: topic, payload: payload, qos: sent})
			expect(sub, topic, payload, min(sent, granted), false)
		}
	}
	leave(sub, pub)
}

func order(join join, root string) {
	sub, pub := join("sub", options{}), join("pub", options{})
	sub.subscribe(root, 2, 0)
	for number := range 300 {
		send := sending{topic: root, payload: strconv.Itoa(number), qos: byte(number % 3)}
		// More than 20 in flight are too many for some brokers.
		if number%15 == 14 {
			pub.publish(send)
		} else {
			pub.start(send)
		}
	}
	var got [3][]int
	for range 300 {
		message := get(sub)
		number, err := strconv.Atoi(message.payload)
		mustNot(err)
		got[message.qos] = append(got[message.qos], number)
	}
	for level, numbers := range got {
		for at, number := range numbers {
			must(number == 3*at+level, "QoS %d: %v", level, numbers)
		}
	}
	leave(sub, pub)
}

func retained(join join, root string) {
	pub := join("pub", options{})
	pub.publish(sending{topic: root + "/1", payload: "v", qos: 1, retain: true})
	sub := join("sub", options{})
	sub.subscribe(root+"/+", 1, 0)
	expect(sub, root+"/1", "v", 1, true)
	pub.publish(sending{topic: root + "/1", qos: 1, retain: true})
	expect(sub, root+"/1", "", 1, false)
	late := join("late", options{})
	late.subscribe(root+"/+", 1, 0)
	pub.publish(sending{topic: root + "/mark", payload: "m", qos: 1})
	expect(late, root+"/mark", "m", 1, false)
	leave(pub, sub, late)
}

func will(join join, root string) {
	watcher := join("watcher", options{})
	watcher.subscribe(root+"/#", 1, 0)
	join("polite", options{will: root + "/polite"}).leave()
	join("victim", options{will: root + "/victim"}).cut()
	expect(watcher, root+"/victim", "gone", 1, false)
	leave(watcher)
}

func resume(join join, root string) {
	pub := join("pub", options{})
	sub := join("sleeper", options{keep: true, expiryS: 60})
	sub.subscribe(root+"/#", 2, 0)
	sub.leave()
	for level := byte(1); level <= 2; level++ {
		topic := fmt.Sprintf("%s/%d", root, level)
		pub.publish(sending{topic: topic, payload: "kept", qos: level})
	}
	back := join("sleeper", options{keep: true, expiryS: 60, of: sub})
	must(back.sessionPresent(), "no session present")
	for level := byte(1); level <= 2; level++ {
		expect(back, fmt.Sprintf("%s/%d", root, level), "kept", level, false)
	}
	back.leave()
	fresh := join("sleeper", options{})
	must(!fresh.sessionPresent(), "a session is present after Clean Start")
	leave(fresh, pub)
}

func shared(join join, root string) {
	var members []peer
	for number := range 3 {
		member := join(fmt.Sprintf("m%d", number), options{})
		member.subscribe("$share/group/"+root+"/job", 1, 0)
		member.subscribe(root+"/end", 1, 0)
		members = append(members, member)
	}
	pub := join("pub", options{})
	for number := range 30 {
		pub.publish(sending{topic: root + "/job", payload: strconv.Itoa(number), qos: 1})
	}
	pub.publish(sending{topic: root + "/end", payload: "end", qos: 1})
	var got []int
	for _, member := range members {
		for message := get(member); message.payload != "end"; message = get(member) {
			number, err := strconv.Atoi(message.payload)
			mustNot(err)
			got = append(got, number)
		}
	}
	slices.Sort(got)
	for at, number := range got {
		must(at == number, "not each once: %v", got)
	}
	must(len(got) == 30, "%d of 30", len(got))
	leave(append(members, pub)...)
}

func takeover(join join, _ string) {
	first, second := join("twin", options{}), join("twin", options{})
	first.waitGone()
	leave(second)
}

func aliases(join join, root string) {
	sub, pub := join("sub", options{}), join("pub", options{})
	sub.subscribe(root+"/#", 1, 0)
	for at, send := range []sending{
		{topic: root + "/a", qos: 1, alias: 1},
		{topic: root + "/b", qos: 0, alias: 2},
		{qos: 1, alias: 1},
		{qos: 0, alias: 2},
		{topic: root + "/c", qos: 1, alias: 1},
		{qos: 1, alias: 1},
	} {
		send.payload = strconv.Itoa(at)
		pub.publish(send)
	}
	var topics [6]string
	for range topics {
		message := get(sub)
		at, err := strconv.Atoi(message.payload)
		mustNot(err)
		topics[at] = message.topic
	}
	for at, topic := range topics {
		must(topic == root+"/"+"ababcc"[at:at+1], "message %d came on %q", at, topic)
	}
	leave(sub, pub)
}

func properties(join join, root string) {
	sub, pub := join("sub", options{}), join("pub", options{})
	sub.subscribe(root+"/#", 1, 77)
	pub.publish(sending{topic: root + "/x", payload: "v", qos: 1, expiryS: 100, all: true})
	got := get(sub)
	must(got.properties == allProperties+" 77", "got %s", got.properties)
	must(got.expiryS > 0 && got.expiryS <= 100, "expires in %d s", got.expiryS)
	leave(sub, pub)
}

func expiry(join join, root string) {
	kept := join("kept", options{keep: true, expiryS: 60})
	kept.subscribe(root+"/#", 1, 0)
	kept.leave()
	short := join("short", options{keep: true, expiryS: 1})
	short.leave()
	pub := join("pub", options{})
	pub.publish(sending{topic: root + "/short", payload: "expired", qos: 1, expiryS: 1})
	pub.publish(sending{topic: root + "/long", payload: "there", qos: 1, expiryS: 60})
	// No event tells that time has passed.
	time.Sleep(2500 * time.Millisecond)
	back := join("kept", options{keep: true, of: kept})
	must(back.sessionPresent(), "no session present")
	got := get(back)
	must(got.topic == root+"/long", "got %+v", got)
	must(got.expiryS <= 58, "the time it waited is not taken off: %d s", got.expiryS)
	gone := join("short", options{keep: true, of: short})
	must(!gone.sessionPresent(), "its session has not expired")
	leave(back, gone, pub)
}
