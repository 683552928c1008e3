import com.hivemq.client.internal.mqtt.MqttClientConfig;
import com.hivemq.client.mqtt.MqttClient;
import com.hivemq.client.mqtt.MqttClientBuilder;
import com.hivemq.client.mqtt.MqttClientSslConfig;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.MqttWebSocketConfig;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt5.Mqtt5AsyncClient;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5Connect;
import com.hivemq.client.mqtt.mqtt5.message.connect.Mqtt5ConnectBuilder;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PayloadFormatIndicator;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5Publish;
import com.hivemq.client.mqtt.mqtt5.message.publish.Mqtt5PublishBuilder;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** The HiveMQ client for 5.0. */
final class HiveMq5 extends Peer {
    private final Mqtt5AsyncClient client;

    static Join at(Main.Broker broker) {
        return (id, options) -> new HiveMq5(broker, id, options);
    }

    /** A client of either version. */
    static MqttClientBuilder builder(Main.Broker broker, String id, CountDownLatch gone) {
        MqttClientBuilder builder = MqttClient.builder()
                .identifier(id)
                .serverHost(broker.url().getHost())
                .serverPort(broker.url().getPort())
                .addDisconnectedListener(context -> gone.countDown());
        if (broker.hasTls()) {
            builder = builder.sslConfig(
                    MqttClientSslConfig.builder().trustManagerFactory(broker.trust()).build());
        }
        if (broker.isWebSocket()) {
            String path = broker.url().getPath().substring(1);
            builder = builder.webSocketConfig(
                    MqttWebSocketConfig.builder().serverPath(path).build());
        }
        return builder;
    }

    static <T> T done(Future<T> future) throws Exception {
        return future.get(WAIT_S, TimeUnit.SECONDS);
    }

    /** Closes the socket; the library has no public way to do so without DISCONNECT. */
    static void cut(MqttClientConfig config) throws Exception {
        config.getRawConnectionConfig().getChannel().close().get(WAIT_S, TimeUnit.SECONDS);
    }

    private HiveMq5(Main.Broker broker, String id, Options with) throws Exception {
        client = builder(broker, "hivemq-5-" + id, gone).useMqttVersion5().buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, this::received);
        Mqtt5ConnectBuilder connect = Mqtt5Connect.builder()
                .cleanStart(!with.keep())
                .sessionExpiryInterval(with.expiryS())
                .keepAlive(30);
        if (with.will() != null) {
            connect = connect.willPublish(Mqtt5Publish.builder()
                    .topic(with.will())
                    .qos(MqttQos.AT_LEAST_ONCE)
                    .payload("gone".getBytes())
                    .build());
        }
        isSessionPresent = done(client.connect(connect.build())).isSessionPresent();
    }

    private void received(Mqtt5Publish got) {
        StringBuilder text = new StringBuilder();
        got.getUserProperties().asList().forEach(user ->
                text.append(user.getName()).append('=').append(user.getValue()).append(' '));
        text.append(got.getResponseTopic().map(Object::toString).orElse("")).append(' ');
        ByteBuffer data = got.getCorrelationData().orElse(ByteBuffer.allocate(0));
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        text.append(HexFormat.of().formatHex(bytes)).append(' ');
        text.append(got.getContentType().map(Object::toString).orElse("")).append(' ');
        text.append(got.getPayloadFormatIndicator().map(of -> of.getCode()).orElse(0));
        messages.add(new Message(got.getTopic().toString(), new String(got.getPayloadAsBytes()),
                got.getQos().getCode(), got.isRetain(), got.getMessageExpiryInterval().orElse(0),
                text.toString()));
    }

    @Override
    void subscribe(String filter, int qos, int identifier) throws Exception {
        done(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send());
    }

    /** It gives subscriptions identifiers of its own, and shows them to nobody. */
    @Override
    boolean tellsIdentifiers() {
        return false;
    }

    @Override
    Sent start(Sending of) {
        Mqtt5PublishBuilder.Complete publish = Mqtt5Publish.builder()
                .topic(of.topic())
                .qos(MqttQos.fromCode(of.qos()))
                .retain(of.retain())
                .payload(of.payload().getBytes());
        if (of.expiryS() != 0) {
            publish = publish.messageExpiryInterval(of.expiryS());
        }
        if (of.all()) {
            publish = publish.responseTopic("reply/to")
                    .correlationData(new byte[] {0, 1})
                    .contentType("text/plain")
                    .payloadFormatIndicator(Mqtt5PayloadFormatIndicator.UTF_8)
                    .userProperties()
                    .add("b", "1").add("a", "2").add("b", "3")
                    .applyUserProperties();
        }
        Future<?> sent = client.publish(publish.build());
        return () -> done(sent);
    }

    @Override
    void leave() throws Exception {
        done(client.disconnect());
    }

    @Override
    void cut() throws Exception {
        cut((MqttClientConfig) client.getConfig());
    }
}
