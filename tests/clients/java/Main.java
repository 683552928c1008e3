import java.io.InputStream;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.List;
import java.util.logging.LogManager;
import java.util.stream.Stream;
import javax.net.ssl.TrustManagerFactory;

/**
 * Eclipse Paho and the HiveMQ client run the cells of ../README.md against a broker.
 *
 * <p>Usage: Main paho|hivemq URL [CAFILE]. Prints a line a cell; the exit code says whether all
 * passed.
 */
public final class Main {
    /** A broker, and whom to trust there if TLS is spoken. */
    record Broker(URI url, TrustManagerFactory trust) {
        boolean hasTls() {
            return url.getScheme().equals("mqtts") || url.getScheme().equals("wss");
        }

        boolean isWebSocket() {
            return url.getScheme().startsWith("ws");
        }
    }

    private Main() {}

    private static TrustManagerFactory trust(String file) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (InputStream text = Files.newInputStream(Path.of(file))) {
            store.setCertificateEntry(
                    "ca", CertificateFactory.getInstance("X.509").generateCertificate(text));
        }
        TrustManagerFactory trust =
                TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(store);
        return trust;
    }

    private static boolean run(
            String library, String version, Peer.Join join, Stream<Cells.Named> cells) {
        boolean isGood = true;
        for (Cells.Named cell : cells.toList()) {
            String of = version + "/" + cell.name();
            try {
                cell.cell().run(join, library + "/" + of);
                System.out.println("ok " + of);
            } catch (Exception error) {
                isGood = false;
                System.out.println("FAIL " + of + " " + error);
            }
        }
        return isGood;
    }

    public static void main(String[] arguments) throws Exception {
        // The libraries' own log is about what the cells provoke.
        LogManager.getLogManager().reset();
        TrustManagerFactory trust = arguments.length > 2 ? trust(arguments[2]) : null;
        Broker broker = new Broker(URI.create(arguments[1]), trust);
        boolean isPaho = arguments[0].equals("paho");
        Peer.Join of3 = isPaho ? Paho3.at(broker) : HiveMq3.at(broker);
        Peer.Join of5 = isPaho ? Paho5.at(broker) : HiveMq5.at(broker);
        Stream<Cells.Named> all = Stream.of(Cells.BOTH, Cells.ONLY_5).flatMap(List::stream);
        boolean isGood = run(arguments[0], "3.1.1", of3, Cells.BOTH.stream());
        isGood &= run(arguments[0], "5.0", of5, all);
        // Both libraries have threads that do not end.
        System.exit(isGood ? 0 : 1);
    }
}
