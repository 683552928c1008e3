import com.hivemq.client.internal.mqtt.MqttClientConfig;
import com.hivemq.client.mqtt.MqttGlobalPublishFilter;
import com.hivemq.client.mqtt.datatypes.MqttQos;
import com.hivemq.client.mqtt.mqtt3.Mqtt3AsyncClient;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3Connect;
import com.hivemq.client.mqtt.mqtt3.message.connect.Mqtt3ConnectBuilder;
import com.hivemq.client.mqtt.mqtt3.message.publish.Mqtt3Publish;
import java.lang.reflect.Field;
import java.util.concurrent.Future;

/** The HiveMQ client for 3.1.1. */
final class HiveMq3 extends Peer {
    private final Mqtt3AsyncClient client;

    static Join at(Main.Broker broker) {
        return (id, options) -> new HiveMq3(broker, id, options);
    }

    private HiveMq3(Main.Broker broker, String id, Options with) throws Exception {
        client = HiveMq5.builder(broker, "hivemq-3-" + id, gone).useMqttVersion3().buildAsync();
        client.publishes(MqttGlobalPublishFilter.ALL, got -> messages.add(new Message(
                got.getTopic().toString(), got.getPayloadAsBytes(), got.getQos().getCode(),
                got.isRetain())));
        Mqtt3ConnectBuilder connect =
                Mqtt3Connect.builder().cleanSession(!with.keep()).keepAlive(30);
        if (with.will() != null) {
            connect = connect.willPublish(Mqtt3Publish.builder()
                    .topic(with.will())
                    .qos(MqttQos.AT_LEAST_ONCE)
                    .payload("gone".getBytes())
                    .build());
        }
        isSessionPresent = HiveMq5.done(client.connect(connect.build())).isSessionPresent();
    }

    @Override
    void subscribe(String filter, int qos, int identifier) throws Exception {
        HiveMq5.done(client.subscribeWith().topicFilter(filter).qos(MqttQos.fromCode(qos)).send());
    }

    @Override
    Sent start(Sending of) {
        Future<?> sent = client.publishWith()
                .topic(of.topic())
                .qos(MqttQos.fromCode(of.qos()))
                .retain(of.retain())
                .payload(of.payload().getBytes())
                .send();
        return () -> HiveMq5.done(sent);
    }

    @Override
    void leave() throws Exception {
        HiveMq5.done(client.disconnect());
    }

    @Override
    void cut() throws Exception {
        // What a client of 3.1.1 is a view of.
        Field config = client.getConfig().getClass().getDeclaredField("delegate");
        config.setAccessible(true);
        HiveMq5.cut((MqttClientConfig) config.get(client.getConfig()));
    }
}
