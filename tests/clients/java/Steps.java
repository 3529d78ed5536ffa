import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;
import java.util.concurrent.Callable;
import org.apache.kafka.clients.admin.Admin;

/** What the Java programs of the client matrix share. */
final class Steps {
    interface Step {
        void run() throws Exception;
    }

    /** The version of Apache Kafka's clients, as their jar says it. */
    static String version() {
        Properties properties = new Properties();
        try (InputStream file = Admin.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            properties.load(file);
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
        return properties.getProperty("version");
    }

    /** Runs a step and prints how it went. */
    static void step(String name, Step step) {
        try {
            step.run();
            System.out.println(name + " ok");
        } catch (Throwable failure) {
            failure.printStackTrace();
            System.out.println(name + " fail " + failure.toString().replaceAll("\\s+", " "));
        }
    }

    static void equal(String what, Object got, Object expected) {
        if (!got.equals(expected)) throw new AssertionError(what + ": got " + got + ", expected " + expected);
    }

    static void await(String what, Callable<Boolean> holds) throws Exception {
        long late = System.nanoTime() + 30_000_000_000L;
        while (!holds.call()) {
            if (System.nanoTime() > late) throw new AssertionError("not in 30 s: " + what);
            Thread.sleep(20);
        }
    }

    private Steps() {}
}
