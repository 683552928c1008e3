import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;

/** A client whose messages and acknowledgements can be waited for. */
abstract class Peer {
    static final long WAIT_S = 20;

    /** What came, for whoever waits. */
    protected final BlockingQueue<Message> messages = new LinkedBlockingQueue<>();

    /** Down once the connection is lost. */
    protected final CountDownLatch gone = new CountDownLatch(1);

    /** Whether the broker had the session. */
    protected boolean isSessionPresent;

    /** How to connect; {@code expiryS} is that of the session, of 5.0 only. */
    record Options(boolean keep, long expiryS, String will) {
        static final Options CLEAN = new Options(false, 0, null);

        /** A session that outlives its connection. */
        static Options keep(long expiryS) {
            return new Options(true, expiryS, null);
        }

        /** With payload "gone", at QoS 1. */
        static Options will(String topic) {
            return new Options(false, 0, topic);
        }
    }

    /** A message to publish; {@code expiryS} and {@code all} properties are of 5.0 only. */
    record Sending(
            String topic, String payload, int qos, boolean retain, long expiryS, boolean all) {
        Sending(String topic, String payload, int qos) {
            this(topic, payload, qos, false, 0, false);
        }
    }

    /** A message that came; {@code expiryS} and the other properties, in a line, of 5.0 only. */
    record Message(
            String topic,
            String payload,
            int qos,
            boolean retain,
            long expiryS,
            String properties) {
        Message(String topic, byte[] payload, int qos, boolean retain) {
            this(topic, new String(payload), qos, retain, 0, "");
        }
    }

    /** Makes connected peers. */
    interface Join {
        Peer join(String id, Options options) throws Exception;
    }

    /** A message on its way. */
    interface Sent {
        /** Waits for the acknowledgement. */
        void await() throws Exception;
    }

    abstract void subscribe(String filter, int qos, int identifier) throws Exception;

    abstract Sent start(Sending sending) throws Exception;

    /** Waits for the acknowledgement; {@link #start} does not. */
    void publish(Sending sending) throws Exception {
        start(sending).await();
    }

    BlockingQueue<Message> inbox() {
        return messages;
    }

    boolean isSessionPresent() {
        return isSessionPresent;
    }

    /** Whether messages say by which subscription they came, by its identifier. */
    boolean tellsIdentifiers() {
        return true;
    }

    void waitGone() throws Exception {
        if (!gone.await(WAIT_S, TimeUnit.SECONDS)) {
            throw new IllegalStateException("it is still connected");
        }
    }

    abstract void leave() throws Exception;

    /** Ends the connection without DISCONNECT. */
    abstract void cut() throws Exception;
}
