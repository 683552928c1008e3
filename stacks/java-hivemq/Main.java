import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.hivemq.client.mqtt.MqttClientState;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.datatypes.MqttTopic;
import com.hivemq.client.mqtt.lifecycle.MqttDisconnectSource;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.Mqtt3Client;
import com.hivemq.client.mqtt.mqtt3.Mqtt3ClientBuilder;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongConsumer;

/** The HiveMQ client's asynchronous API and Jackson's tree. */
public final class Main {
    private static final Set<String> WORKFLOWS =
            Set.of("subscribe", "workflow", "publish", "connect");
    private static final List<String> NAMES = List.of("mcc", "mnc", "lac", "cell_id");
    private static final long WAIT_S = 10;
    /** At {@code stop}, how long acknowledgements are waited for. */
    private static final long LEAVE_MS = 2_000;
    /** Publishes whose end is not known; one more counts as failed. */
    private static final long PENDING_MAX = 50_000;
    private static final long N_FIRST = 1_000_000_000;
    /** 300 bytes with the ten digits of {@code n} and the closing brace. */
    private static final String RECORD =
            "{\"t\":1521028800,\"f\":1073741825,\"tp\":\"ud\",\"pos\":{\"y\":53.9045398,"
                    + "\"x\":27.5615244,\"z\":220,\"s\":62,\"c\":184,\"sc\":11},\"i\":3,\"o\":0,"
                    + "\"p\":{\"mcc\":257,\"mnc\":2,\"lac\":10471,\"cell_id\":55023,\"gsm\":21,"
                    + "\"pwr_ext\":13.842,\"pwr_int\":4.103,\"odo\":48213.671,\"hdop\":1,"
                    + "\"temp\":21.5,\"fuel\":47.25,\"rpm\":1840,\"ign\":1},\"n\":";

    private final Map<String, String> options;
    private final String workflow;
    private final MqttTopic topic;
    private final MqttQos qos;
    private final double rate;
    private final ObjectMapper mapper = new ObjectMapper();
    private final AtomicLong received = new AtomicLong();
    private final AtomicLong matched = new AtomicLong();
    private final AtomicLong published = new AtomicLong();
    private final AtomicLong failed = new AtomicLong();
    private final AtomicLong connects = new AtomicLong();
    private final AtomicLong pending = new AtomicLong();
    private Mqtt3AsyncClient client;
    private ScheduledExecutorService pacer;

    private Main(Map<String, String> options) {
        this.options = options;
        workflow = options.get("workflow");
        topic = MqttTopic.of(options.get("out"));
        qos = MqttQos.fromCode(Integer.parseInt(options.get("qos")));
        rate = Double.parseDouble(options.get("rate"));
    }

    private static void fail(String text) {
        System.err.println(text);
        // The caller may be one of the client's own threads.
        Runtime.getRuntime().halt(1);
    }

    private static Map<String, String> readOptions(String[] arguments) {
        Map<String, String> options = new HashMap<>(Map.of(
                "host", "127.0.0.1", "port", "1883", "workflow", "", "in", "ud/#", "out", "out",
                "qos", "0", "rate", "0", "json", "jackson"));
        for (int at = 0; at < arguments.length; at += 2) {
            String name = arguments[at].replaceFirst("^--", "");
            if (!options.containsKey(name) || at + 1 == arguments.length) {
                fail("no such option, or no value: " + arguments[at]);
            }
            options.put(name, arguments[at + 1]);
        }
        boolean isPaced = Set.of("publish", "connect").contains(options.get("workflow"));
        if (!WORKFLOWS.contains(options.get("workflow"))) {
            fail("no such workflow: " + options.get("workflow"));
        } else if (isPaced && Double.parseDouble(options.get("rate")) <= 0) {
            fail("--rate must be above 0 for the workflows publish and connect");
        } else if (!options.get("json").equals("jackson")) {
            fail("no such JSON library: " + options.get("json"));
        }
        return options;
    }

    private Mqtt3ClientBuilder newClient() {
        return Mqtt3Client.builder()
                .identifier("stack-" + ProcessHandle.current().pid())
                .serverHost(options.get("host"))
                .serverPort(Integer.parseInt(options.get("port")));
    }

    private void join() throws InterruptedException, ExecutionException, TimeoutException {
        client = newClient()
                .addDisconnectedListener(context -> {
                    if (context.getSource() != MqttDisconnectSource.USER) {
                        fail("disconnected: " + context.getCause());
                    }
                })
                .buildAsync();
        client.connectWith().cleanSession(true).keepAlive(60).send().get(WAIT_S, TimeUnit.SECONDS);
        if (workflow.equals("publish")) {
            return;
        }
        client.subscribeWith()
                .topicFilter(options.get("in"))
                .qos(qos)
                .callback(workflow.equals("subscribe") ? this::count : this::forward)
                .send()
                .get(WAIT_S, TimeUnit.SECONDS);
    }

    private void count(Mqtt3Publish message) {
        received.incrementAndGet();
    }

    private void forward(Mqtt3Publish message) {
        received.incrementAndGet();
        byte[] payload = message.getPayloadAsBytes();
        JsonNode record;
        try {
            record = mapper.readTree(payload);
        } catch (IOException notJson) {
            failed.incrementAndGet();
            return;
        }
        JsonNode p = record.path("p");
        if (NAMES.stream().allMatch(p::has)) {
            matched.incrementAndGet();
            publish(payload);
        }
    }

    private void publish(byte[] payload) {
        if (pending.incrementAndGet() > PENDING_MAX) {
            pending.decrementAndGet();
            failed.incrementAndGet();
            return;
        }
        client.publishWith().topic(topic).qos(qos).payload(payload).send()
                .whenComplete((publish, error) -> {
                    (error == null ? published : failed).incrementAndGet();
                    pending.decrementAndGet();
                });
    }

    private void publishRecord(long number) {
        publish((RECORD + (N_FIRST + number) + "}").getBytes(StandardCharsets.UTF_8));
    }

    private void connectOnce(long number) {
        Mqtt3AsyncClient one = newClient().buildAsync();
        try {
            one.connectWith().cleanSession(true).send().get(WAIT_S, TimeUnit.SECONDS);
            one.disconnect().get(WAIT_S, TimeUnit.SECONDS);
            connects.incrementAndGet();
        } catch (InterruptedException | ExecutionException | TimeoutException notJoined) {
            failed.incrementAndGet();
        }
    }

    /** Open loop: calls the operation when it is due, all late ones at once. */
    private void start() {
        boolean isPaced = workflow.equals("publish") || workflow.equals("connect");
        if (pacer != null || !isPaced) {
            return;
        }
        LongConsumer operation =
                workflow.equals("publish") ? this::publishRecord : this::connectOnce;
        pacer = Executors.newSingleThreadScheduledExecutor();
        long begin = System.nanoTime();
        AtomicLong next = new AtomicLong();
        pacer.scheduleAtFixedRate(() -> {
            long due = (long) ((System.nanoTime() - begin) / 1e9 * rate) + 1;
            while (next.get() < due && !pacer.isShutdown()) {
                operation.accept(next.getAndIncrement());
            }
        }, 0, 1, TimeUnit.MILLISECONDS);
    }

    private void sayCounts() {
        String line = "counts received=" + received + " matched=" + matched
                + " published=" + published + " failed=" + failed;
        System.out.println(workflow.equals("connect") ? line + " connects=" + connects : line);
    }

    private void sayReady() {
        // The library does not tell its version, but the name of its file does.
        String file = Mqtt3Client.class.getProtectionDomain().getCodeSource().getLocation()
                .getPath();
        String library = file.substring(file.lastIndexOf('/') + 1).replace(".jar", "");
        System.out.println("ready java-hivemq " + library + " java-"
                + System.getProperty("java.version") + " jackson-" + mapper.version());
    }

    private void serve() throws IOException {
        BufferedReader lines =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            switch (line.trim()) {
                case "start" -> start();
                case "counts" -> sayCounts();
                case "stop" -> {
                    return;
                }
                case "" -> { }
                default -> System.err.println("no such command: " + line);
            }
        }
    }

    private void leave() throws InterruptedException, ExecutionException, TimeoutException {
        if (pacer != null) {
            pacer.shutdown();
            pacer.awaitTermination(WAIT_S, TimeUnit.SECONDS);
        }
        long end = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(LEAVE_MS);
        while (pending.get() > 0 && System.nanoTime() < end) {
            Thread.sleep(1);
        }
        if (client != null && client.getState() == MqttClientState.CONNECTED) {
            client.disconnect().get(WAIT_S, TimeUnit.SECONDS);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Main stack = new Main(readOptions(arguments));
        try {
            if (!stack.workflow.equals("connect")) {
                stack.join();
            }
            stack.sayReady();
            stack.serve();
            stack.leave();
        } catch (ExecutionException | TimeoutException failure) {
            fail(String.valueOf(failure.getCause() == null ? failure : failure.getCause()));
        }
        stack.sayCounts();
        // Threads of the client may still be there.
        System.exit(0);
    }
}
