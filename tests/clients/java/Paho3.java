import org.eclipse.paho.client.mqttv3.IMqttDeliveryToken;
import org.eclipse.paho.client.mqttv3.IMqttToken;
import org.eclipse.paho.client.mqttv3.MqttAsyncClient;
import org.eclipse.paho.client.mqttv3.MqttCallback;
import org.eclipse.paho.client.mqttv3.MqttConnectOptions;
import org.eclipse.paho.client.mqttv3.MqttMessage;
import org.eclipse.paho.client.mqttv3.persist.MemoryPersistence;

/** Eclipse Paho for 3.1.1. */
final class Paho3 extends Peer implements MqttCallback {
    private final MqttAsyncClient client;

    static Join at(Main.Broker broker) {
        return (id, options) -> new Paho3(broker, id, options);
    }

    private Paho3(Main.Broker broker, String id, Options with) throws Exception {
        client = new MqttAsyncClient(Paho5.url(broker), "paho-3-" + id, new MemoryPersistence());
        client.setCallback(this);
        MqttConnectOptions options = new MqttConnectOptions();
        options.setMqttVersion(MqttConnectOptions.MQTT_VERSION_3_1_1);
        options.setCleanSession(!with.keep());
        options.setKeepAliveInterval(30);
        options.setMaxInflight(1_000);
        if (broker.hasTls()) {
            options.setSocketFactory(Paho5.sockets(broker));
        }
        if (with.will() != null) {
            options.setWill(with.will(), "gone".getBytes(), 1, false);
        }
        isSessionPresent = done(client.connect(options)).getSessionPresent();
    }

    private static IMqttToken done(IMqttToken token) throws Exception {
        token.waitForCompletion(WAIT_S * 1_000);
        return token;
    }

    @Override
    public void messageArrived(String topic, MqttMessage got) {
        messages.add(new Message(topic, got.getPayload(), got.getQos(), got.isRetained()));
    }

    @Override
    public void connectionLost(Throwable cause) {
        gone.countDown();
    }

    @Override
    public void deliveryComplete(IMqttDeliveryToken token) {}

    @Override
    void subscribe(String filter, int qos, int identifier) throws Exception {
        done(client.subscribe(filter, qos));
    }

    @Override
    Sent start(Sending of) throws Exception {
        IMqttToken sent = client.publish(of.topic(), of.payload().getBytes(), of.qos(), of.retain());
        return () -> done(sent);
    }

    @Override
    void leave() throws Exception {
        done(client.disconnect());
    }

    @Override
    void cut() throws Exception {
        client.disconnectForcibly(0, 0, false);
    }
}
