import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Run it with: java Worker.java
 * It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand. A JVM then exits with 143, so a
 * systemd unit needs SuccessExitStatus=143.
 */
class Worker {
    static final Map<String, String> ENV = System.getenv();
    static final String URL = ENV.getOrDefault("LINGER_URL", "http://127.0.0.1:9277").replaceAll("/+$", "");
    static final String TOPIC = ENV.getOrDefault("TOPIC", "hello");
    static final HttpClient CLIENT = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
    static volatile boolean stopping, polling;

    /** Do the work here; the body is JSON. It may run twice for a job; throw an exception to give it back. */
    static void work(String body) throws Exception {
        System.out.println(body);
    }

    static HttpResponse<String> call(String method, String path, String json) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(URL + path)).timeout(Duration.ofSeconds(40))
            .method(method, HttpRequest.BodyPublishers.ofString(json)).header("content-type", "application/json");
        if (ENV.containsKey("LINGER_TOKEN")) request.header("authorization", "Bearer " + ENV.get("LINGER_TOKEN"));
        return CLIENT.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    /** Returns the next job's members; null when none came due or the server did not give one. */
    static Map<String, String> pop() throws InterruptedException {
        try {
            polling = true;
            if (stopping) return null;
            var answer = call("GET", "/topics/" + TOPIC + "/pop?wait=20s", "");
            polling = false;
            if (answer.statusCode() == 204) return null;
            var job = answer.statusCode() == 200 ? members(answer.body()) : Map.<String, String>of();
            if (job.containsKey("id") && job.containsKey("receipt") && job.containsKey("body")) return job;
            System.err.println("pop: " + answer.statusCode() + " " + answer.body().strip());
        } catch (IOException error) {
            System.err.println("pop: " + error);
        } finally {
            polling = false;
        }
        Thread.sleep(2_000);
        return null;
    }

    /** Finishes or releases a job. Repeating is safe; if every try fails, the job's TTR brings it back. */
    static void settle(String id, String step, String json) throws InterruptedException {
        for (int tries = 0; tries < 5; tries++) {
            try {
                var answer = call("POST", "/jobs/" + id + "/" + step, json);
                if (answer.statusCode() < 300) return;
                System.err.println(step + " " + id + ": " + answer.statusCode() + " " + answer.body().strip());
                if (answer.statusCode() < 500) return; // 404: it is gone already. 409: it has another holder by now.
            } catch (IOException error) {
                System.err.println(step + " " + id + ": " + error);
            }
            Thread.sleep(2_000);
        }
    }

    /** The members of a JSON object, each value as the text that it has there. */
    static Map<String, String> members(String json) {
        var members = new HashMap<String, String>();
        int depth = 0, start = 0;
        String name = null;
        boolean quoted = false;
        for (int at = 0; at < json.length(); at++) {
            char c = json.charAt(at);
            if (quoted && c == '\\') at++;
            else if (c == '"') quoted = !quoted;
            else if (quoted) continue;
            else if (depth == 1 && c == ':' && name == null) {
                name = bare(json.substring(start, at));
                start = at + 1;
            } else if (depth == 1 && (c == ',' || c == '}')) {
                if (name != null) members.put(name, json.substring(start, at).strip());
                name = null;
                start = at + 1;
            }
            if (c == '{' || c == '[') {
                if (depth++ == 0) start = at + 1;
            } else if (c == '}' || c == ']') depth--;
        }
        return members;
    }

    /** A string without its quotes. Names, ids and receipts have no escapes. */
    static String bare(String text) {
        return text.strip().replaceAll("^\"|\"$", "");
    }

    public static void main(String[] args) throws InterruptedException {
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            stopping = true;
            // Interrupting a poll closes its connection, which hands a job that was about to come to another worker.
            if (polling) main.interrupt();
            try { main.join(); } catch (InterruptedException ignored) { }
        }));
        while (!stopping) {
            Map<String, String> job;
            try { job = pop(); } catch (InterruptedException stop) { return; }
            if (job == null) continue;
            String id = bare(job.get("id")), receipt = bare(job.get("receipt"));
            try {
                work(job.get("body"));
            } catch (Throwable failure) {
                System.err.println("job " + id + ": " + failure);
                settle(id, "release", "{\"receipt\":\"" + receipt + "\"}");
                continue;
            }
            settle(id, "finish?receipt=" + receipt, "");
        }
    }
}
