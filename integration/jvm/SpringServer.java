import io.micrometer.context.ContextExecutorService;
import io.micrometer.context.ContextSnapshotFactory;
import io.micrometer.observation.Observation;
import io.micrometer.observation.ObservationRegistry;

import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.RestController;

/**
 * A Spring Boot application whose requests and observations are spans by Micrometer Tracing, over OpenTelemetry or over Brave.
 *
 *     SpringServer REQUESTS --spring.autoconfigure.exclude=THE_OTHER_BRIDGE
 */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
@RestController
public class SpringServer {
    private final ObservationRegistry registry;
    private final ExecutorService pool =
            ContextExecutorService.wrap(Executors.newFixedThreadPool(2), ContextSnapshotFactory.builder().build()::captureAll);

    public SpringServer(ObservationRegistry registry) {
        this.registry = registry;
    }

    @GetMapping("/work/{k}")
    public String answer(@PathVariable("k") int k) throws Exception {
        Served.work(k);
        Future<?> job = pool.submit(() -> Served.work(k));
        Observation.createNotStarted("inner", registry).observe(() -> Served.work(k));
        job.get();
        Served.work(k);
        return "done";
    }

    public static void main(String[] args) throws Exception {
        ConfigurableApplicationContext context = SpringApplication.run(SpringServer.class, args);
        int port = Integer.parseInt(context.getEnvironment().getProperty("local.server.port"));
        Served.drive(port, Integer.parseInt(args[0]));
        System.exit(0);
    }
}
