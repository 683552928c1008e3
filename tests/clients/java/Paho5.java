import java.lang.reflect.Field;
import java.net.Socket;
import java.util.HexFormat;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import org.eclipse.paho.mqttv5.client.IMqttToken;
import org.eclipse.paho.mqttv5.client.MqttAsyncClient;
import org.eclipse.paho.mqttv5.client.MqttCallback;
import org.eclipse.paho.mqttv5.client.MqttConnectionOptions;
import org.eclipse.paho.mqttv5.client.MqttDisconnectResponse;
import org.eclipse.paho.mqttv5.client.internal.ClientComms;
import org.eclipse.paho.mqttv5.client.internal.NetworkModule;
import org.eclipse.paho.mqttv5.client.internal.TCPNetworkModule;
import org.eclipse.paho.mqttv5.client.persist.MemoryPersistence;
import org.eclipse.paho.mqttv5.common.MqttException;
import org.eclipse.paho.mqttv5.common.MqttMessage;
import org.eclipse.paho.mqttv5.common.MqttSubscription;
import org.eclipse.paho.mqttv5.common.packet.MqttProperties;
import org.eclipse.paho.mqttv5.common.packet.UserProperty;

/** Eclipse Paho for 5.0. */
final class Paho5 extends Peer implements MqttCallback {
    private final MqttAsyncClient client;

    static Join at(Main.Broker broker) {
        return (id, options) -> new Paho5(broker, id, options);
    }

    /** As Paho writes it. */
    static String url(Main.Broker broker) {
        String url = broker.url().toString();
        return url.replaceFirst("^mqtts:", "ssl:").replaceFirst("^mqtt:", "tcp:");
    }

    static SSLSocketFactory sockets(Main.Broker broker) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, broker.trust().getTrustManagers(), null);
        return context.getSocketFactory();
    }

    private Paho5(Main.Broker broker, String id, Options with) throws Exception {
        client = new MqttAsyncClient(url(broker), "paho-5-" + id, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectionOptions options = new MqttConnectionOptions();
        options.setCleanStart(!with.keep());
        options.setSessionExpiryInterval(with.expiryS());
        options.setKeepAliveInterval(30);
        // Else it gives subscriptions identifiers of its own.
        options.setUseSubscriptionIdentifiers(false);
        options.setAutomaticReconnect(false);
        if (broker.hasTls()) {
            options.setSocketFactory(sockets(broker));
        }
        if (with.will() != null) {
            options.setWill(with.will(), new MqttMessage("gone".getBytes(), 1, false, null));
        }
        isSessionPresent = done(client.connect(options)).getSessionPresent();
    }

    private static IMqttToken done(IMqttToken token) throws Exception {
        token.waitForCompletion(WAIT_S * 1_000);
        return token;
    }

    @Override
    public void messageArrived(String topic, MqttMessage got) {
        MqttProperties of = got.getProperties();
        Long expiryS = of.getMessageExpiryInterval();
        messages.add(new Message(topic, new String(got.getPayload()), got.getQos(),
                got.isRetained(), expiryS == null ? 0 : expiryS, describe(of)));
    }

    private static String describe(MqttProperties of) {
        StringBuilder text = new StringBuilder();
        for (UserProperty user : of.getUserProperties()) {
            text.append(user.getKey()).append('=').append(user.getValue()).append(' ');
        }
        byte[] data = of.getCorrelationData();
        text.append(of.getResponseTopic()).append(' ');
        text.append(data == null ? "" : HexFormat.of().formatHex(data)).append(' ');
        text.append(of.getContentType()).append(' ').append(of.getPayloadFormat() ? 1 : 0);
        List<Integer> identifiers = of.getSubscriptionIdentifiers();
        identifiers.forEach(identifier -> text.append(' ').append(identifier));
        return text.toString();
    }

    @Override
    public void disconnected(MqttDisconnectResponse response) {
        gone.countDown();
    }

    @Override
    public void mqttErrorOccurred(MqttException error) {}

    @Override
    public void deliveryComplete(IMqttToken token) {}

    @Override
    public void connectComplete(boolean isAgain, String url) {}

    @Override
    public void authPacketArrived(int reason, MqttProperties properties) {}

    @Override
    void subscribe(String filter, int qos, int identifier) throws Exception {
        MqttProperties properties = new MqttProperties();
        if (identifier != 0) {
            properties.setSubscriptionIdentifier(identifier);
        }
        MqttSubscription[] one = {new MqttSubscription(filter, qos)};
        done(client.subscribe(one, null, null, properties));
    }

    @Override
    Sent start(Sending of) throws Exception {
        MqttProperties properties = new MqttProperties();
        if (of.expiryS() != 0) {
            properties.setMessageExpiryInterval(of.expiryS());
        }
        if (of.all()) {
            properties.setUserProperties(List.of(
                    new UserProperty("b", "1"), new UserProperty("a", "2"),
                    new UserProperty("b", "3")));
            properties.setResponseTopic("reply/to");
            properties.setCorrelationData(new byte[] {0, 1});
            properties.setContentType("text/plain");
            properties.setPayloadFormat(true);
        }
        byte[] payload = of.payload().getBytes();
        IMqttToken sent = client.publish(
                of.topic(), new MqttMessage(payload, of.qos(), of.retain(), properties));
        return () -> done(sent);
    }

    @Override
    void leave() throws Exception {
        done(client.disconnect());
    }

    /** Closes the socket: over TLS, what the library has for this leaves it open for a while. */
    @Override
    void cut() throws Exception {
        ClientComms comms = (ClientComms) field(MqttAsyncClient.class, "comms").get(client);
        NetworkModule module = comms.getNetworkModules()[comms.getNetworkModuleIndex()];
        Socket socket = (Socket) field(TCPNetworkModule.class, "socket").get(module);
        socket.setSoLinger(true, 0);
        socket.close();
    }

    private static Field field(Class<?> of, String name) throws NoSuchFieldException {
        Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return field;
    }
}
