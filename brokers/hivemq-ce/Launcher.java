import com.hivemq.embedded.EmbeddedExtension;
import com.hivemq.embedded.EmbeddedHiveMQ;
import com.hivemq.extension.sdk.api.ExtensionMain;
import com.hivemq.extension.sdk.api.auth.SimpleAuthenticator;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStartOutput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopInput;
import com.hivemq.extension.sdk.api.parameter.ExtensionStopOutput;
import com.hivemq.extension.sdk.api.services.Services;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * HiveMQ CE as a library, with the folders that HIVEMQ_CONFIG_FOLDER and HIVEMQ_DATA_FOLDER name.
 * Everybody may connect, as with the extension that comes with a release.
 */
public final class Launcher {
    public static void main(String[] arguments) throws Exception {
        Path data = Path.of(System.getenv("HIVEMQ_DATA_FOLDER"));
        Path extensions = Files.createDirectories(data.resolve("extensions"));
        EmbeddedExtension allowAll = EmbeddedExtension.builder()
                .withId("allow-all")
                .withName("allow all")
                .withVersion("1")
                .withAuthor("Weir")
                .withPriority(0)
                .withStartPriority(1000)
                .withExtensionMain(new AllowAll())
                .build();
        EmbeddedHiveMQ broker = EmbeddedHiveMQ.builder()
                .withConfigurationFolder(Path.of(System.getenv("HIVEMQ_CONFIG_FOLDER")))
                .withDataFolder(data)
                .withExtensionsFolder(extensions)
                .withEmbeddedExtension(allowAll)
                .build();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> broker.stop().join()));
        broker.start().join();
        Thread.currentThread().join();
    }

    private static final class AllowAll implements ExtensionMain {
        @Override
        public void extensionStart(ExtensionStartInput input, ExtensionStartOutput output) {
            SimpleAuthenticator all = (in, out) -> out.authenticateSuccessfully();
            Services.securityRegistry().setAuthenticatorProvider(in -> all);
        }

        @Override
        public void extensionStop(ExtensionStopInput input, ExtensionStopOutput output) {
            // Nothing is held.
        }
    }
}
