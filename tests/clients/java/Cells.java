import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;

/** The cells of ../README.md; one that does not hold throws. */
final class Cells {
    /** A thing that must work. */
    interface Cell {
        void run(Peer.Join join, String root) throws Exception;
    }

    record Named(String name, Cell cell) {}

    static final List<Named> BOTH = List.of(
            new Named("qos", Cells::qos),
            new Named("order", Cells::order),
            new Named("retained", Cells::retained),
            new Named("will", Cells::will),
            new Named("resume", Cells::resume),
            new Named("shared", Cells::shared),
            new Named("takeover", Cells::takeover));

    static final List<Named> ONLY_5 = List.of(
            new Named("aliases", Cells::aliases),
            new Named("properties", Cells::properties),
            new Named("expiry", Cells::expiry));

    /** What peers make of the properties of a sending with all of them. */
    static final String ALL_PROPERTIES = "b=1 a=2 b=3 reply/to 0001 text/plain 1";

    private Cells() {}

    private static void must(boolean is, String what) {
        if (!is) {
            throw new IllegalStateException(what);
        }
    }

    private static Peer.Message get(Peer from) throws InterruptedException {
        return Objects.requireNonNull(
                from.inbox().poll(Peer.WAIT_S, TimeUnit.SECONDS), "no message in time");
    }

    private static void expect(Peer from, String topic, String payload, int qos, boolean retain)
            throws InterruptedException {
        Peer.Message got = get(from);
        boolean isSame = got.topic().equals(topic) && got.payload().equals(payload)
                && got.qos() == qos && got.retain() == retain;
        must(isSame, got + " is not " + topic + " " + payload + " " + qos + " " + retain);
    }

    private static void leave(Peer... peers) throws Exception {
        for (Peer peer : peers) {
            peer.leave();
        }
    }

    private static void qos(Peer.Join join, String root) throws Exception {
        Peer sub = join.join("sub", Peer.Options.CLEAN);
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        for (int granted = 0; granted < 3; granted++) {
            String topic = root + "/" + granted;
            sub.subscribe(topic, granted, 0);
            for (int sent = 0; sent < 3; sent++) {
                pub.publish(new Peer.Sending(topic, "" + sent, sent));
                expect(sub, topic, "" + sent, Math.min(sent, granted), false);
            }
        }
        leave(sub, pub);
    }

    private static void order(Peer.Join join, String root) throws Exception {
        Peer sub = join.join("sub", Peer.Options.CLEAN);
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        sub.subscribe(root, 2, 0);
        for (int number = 0; number < 300; number++) {
            Peer.Sending sending = new Peer.Sending(root, "" + number, number % 3);
            // More than 20 in flight are too many for some brokers.
            if (number % 15 == 14) {
                pub.publish(sending);
            } else {
                pub.start(sending);
            }
        }
        List<List<Integer>> got = List.of(new ArrayList<>(), new ArrayList<>(), new ArrayList<>());
        for (int number = 0; number < 300; number++) {
            Peer.Message message = get(sub);
            got.get(message.qos()).add(Integer.parseInt(message.payload()));
        }
        for (int level = 0; level < 3; level++) {
            int from = level;
            List<Integer> due = IntStream.range(0, 100).map(at -> 3 * at + from).boxed().toList();
            must(got.get(level).equals(due), "QoS " + level + ": " + got.get(level));
        }
        leave(sub, pub);
    }

    private static void retained(Peer.Join join, String root) throws Exception {
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        pub.publish(new Peer.Sending(root + "/1", "v", 1, true, 0, false));
        Peer sub = join.join("sub", Peer.Options.CLEAN);
        sub.subscribe(root + "/+", 1, 0);
        expect(sub, root + "/1", "v", 1, true);
        pub.publish(new Peer.Sending(root + "/1", "", 1, true, 0, false));
        expect(sub, root + "/1", "", 1, false);
        Peer late = join.join("late", Peer.Options.CLEAN);
        late.subscribe(root + "/+", 1, 0);
        pub.publish(new Peer.Sending(root + "/mark", "m", 1));
        expect(late, root + "/mark", "m", 1, false);
        leave(pub, sub, late);
    }

    private static void will(Peer.Join join, String root) throws Exception {
        Peer watcher = join.join("watcher", Peer.Options.CLEAN);
        watcher.subscribe(root + "/#", 1, 0);
        join.join("polite", Peer.Options.will(root + "/polite")).leave();
        join.join("victim", Peer.Options.will(root + "/victim")).cut();
        expect(watcher, root + "/victim", "gone", 1, false);
        leave(watcher);
    }

    private static void resume(Peer.Join join, String root) throws Exception {
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        Peer sub = join.join("sleeper", Peer.Options.keep(60));
        sub.subscribe(root + "/#", 2, 0);
        sub.leave();
        for (int level = 1; level <= 2; level++) {
            pub.publish(new Peer.Sending(root + "/" + level, "kept", level));
        }
        Peer back = join.join("sleeper", Peer.Options.keep(60));
        must(back.isSessionPresent(), "no session is present");
        for (int level = 1; level <= 2; level++) {
            expect(back, root + "/" + level, "kept", level, false);
        }
        back.leave();
        Peer fresh = join.join("sleeper", Peer.Options.CLEAN);
        must(!fresh.isSessionPresent(), "a session is present after Clean Start");
        leave(fresh, pub);
    }

    private static void shared(Peer.Join join, String root) throws Exception {
        List<Peer> members = new ArrayList<>();
        for (int number = 0; number < 3; number++) {
            Peer member = join.join("m" + number, Peer.Options.CLEAN);
            member.subscribe("$share/group/" + root + "/job", 1, 0);
            member.subscribe(root + "/end", 1, 0);
            members.add(member);
        }
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        for (int number = 0; number < 30; number++) {
            pub.publish(new Peer.Sending(root + "/job", "" + number, 1));
        }
        pub.publish(new Peer.Sending(root + "/end", "end", 1));
        List<Integer> got = new ArrayList<>();
        for (Peer member : members) {
            for (Peer.Message one = get(member); !one.payload().equals("end"); one = get(member)) {
                got.add(Integer.parseInt(one.payload()));
            }
        }
        List<Integer> due = IntStream.range(0, 30).boxed().toList();
        must(got.stream().sorted().toList().equals(due), "not each once: " + got);
        members.add(pub);
        leave(members.toArray(Peer[]::new));
    }

    private static void takeover(Peer.Join join, String root) throws Exception {
        Peer first = join.join("twin", Peer.Options.CLEAN);
        Peer second = join.join("twin", Peer.Options.CLEAN);
        first.waitGone();
        leave(second);
    }

    /** Both libraries give aliases themselves: on the second message to a topic at the latest. */
    private static void aliases(Peer.Join join, String root) throws Exception {
        Peer sub = join.join("sub", Peer.Options.CLEAN);
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        sub.subscribe(root + "/#", 1, 0);
        String topics = "abababcbcab";
        for (int at = 0; at < topics.length(); at++) {
            String topic = root + "/" + topics.charAt(at);
            pub.publish(new Peer.Sending(topic, "" + at, at % 2));
        }
        for (int at = 0; at < topics.length(); at++) {
            Peer.Message got = get(sub);
            String due = root + "/" + topics.charAt(Integer.parseInt(got.payload()));
            must(got.topic().equals(due), got + " is not of " + due);
        }
        leave(sub, pub);
    }

    private static void properties(Peer.Join join, String root) throws Exception {
        Peer sub = join.join("sub", Peer.Options.CLEAN);
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        sub.subscribe(root + "/#", 1, 77);
        pub.publish(new Peer.Sending(root + "/x", "v", 1, false, 100, true));
        Peer.Message got = get(sub);
        String due = ALL_PROPERTIES + (sub.tellsIdentifiers() ? " 77" : "");
        must(got.properties().equals(due), got.properties() + " is not " + due);
        must(got.expiryS() > 0 && got.expiryS() <= 100, "expires in " + got.expiryS() + " s");
        leave(sub, pub);
    }

    private static void expiry(Peer.Join join, String root) throws Exception {
        Peer kept = join.join("kept", Peer.Options.keep(60));
        kept.subscribe(root + "/#", 1, 0);
        kept.leave();
        join.join("short", Peer.Options.keep(1)).leave();
        Peer pub = join.join("pub", Peer.Options.CLEAN);
        pub.publish(new Peer.Sending(root + "/short", "expired", 1, false, 1, false));
        pub.publish(new Peer.Sending(root + "/long", "there", 1, false, 60, false));
        // No event tells that time has passed.
        Thread.sleep(2_500);
        Peer back = join.join("kept", Peer.Options.keep(0));
        must(back.isSessionPresent(), "no session is present");
        Peer.Message got = get(back);
        must(got.topic().equals(root + "/long"), got.toString());
        must(got.expiryS() <= 58, "the time it waited is not taken off: " + got.expiryS());
        Peer gone = join.join("short", Peer.Options.keep(0));
        must(!gone.isSessionPresent(), "its session has not expired");
        leave(back, gone, pub);
    }
}
