import java.util.concurrent.BlockingQueue;

/** A client whose messages and acknowledgements can be waited for. */
interface Peer {
    long WAIT_S = 20;

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

    void subscribe(String filter, int qos, int identifier) throws Exception;

    /** Waits for the acknowledgement; {@link #start} does not. */
    void publish(Sending sending) throws Exception;

    void start(Sending sending) throws Exception;

    BlockingQueue<Message> inbox();

    boolean isSessionPresent();

    /** Whether messages say by which subscription they came, by its identifier. */
    default boolean tellsIdentifiers() {
        return true;
    }

    void waitGone() throws Exception;

    void leave() throws Exception;

    /** Ends the connection without DISCONNECT. */
    void cut() throws Exception;
}
