import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;

/**
 * Adds a job that closes an order later. Run it with: java Producer.java ORDER [DELAY]
 * It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
 * again changes nothing: the request is repeated until the server has answered.
 */
class Producer {
    public static void main(String[] args) throws InterruptedException {
        if (args.length < 1 || !args[0].matches("[A-Za-z0-9._-]+")) {
            System.err.println("usage: java Producer.java ORDER [DELAY]");
            System.exit(1);
        }
        var env = System.getenv();
        var url = env.getOrDefault("LINGER_URL", "http://127.0.0.1:9277").replaceAll("/+$", "");
        var job = String.format("{\"topic\":\"%s\",\"id\":\"orders:%s:close\",\"delay\":\"%s\",\"body\":{\"order\":\"%s\"}}",
            env.getOrDefault("TOPIC", "order-close"), args[0], args.length > 1 ? args[1] : "30m", args[0]);
        var request = HttpRequest.newBuilder(URI.create(url + "/jobs")).timeout(Duration.ofSeconds(10))
            .POST(HttpRequest.BodyPublishers.ofString(job)).header("content-type", "application/json");
        if (env.containsKey("LINGER_TOKEN")) request.header("authorization", "Bearer " + env.get("LINGER_TOKEN"));
        var client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        for (int tries = 0, pause = 1_000; tries < 8; tries++, pause = Math.min(pause * 2, 30_000)) {
            try {
                var answer = client.send(request.build(), HttpResponse.BodyHandlers.ofString());
                if (answer.statusCode() < 300) { // 201: added. 200: an earlier try had added it.
                    System.out.println(answer.body().strip());
                    System.exit(0);
                }
                System.err.println("add: " + answer.statusCode() + " " + answer.body().strip());
                if (answer.statusCode() < 500) System.exit(1); // the request is wrong, and repeating it does not help
            } catch (IOException error) {
                System.err.println("add: " + error);
            }
            Thread.sleep(pause);
        }
        System.err.println("add: the server did not take the job; it is safe to run this again");
        System.exit(1);
    }
}
