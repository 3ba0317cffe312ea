import java.io.IOException;
import java.net.URI;
import java.net.http.*;

class Worker { // takes the jobs of $TOPIC at $LINGER_URL one by one and prints their bodies: java Worker.java
    static final HttpClient CLIENT = HttpClient.newHttpClient();
    static void work(String body) { System.out.println(body); } // may run twice for a job; throwing gives it back

    static String call(String method, String path, String json) throws IOException, InterruptedException {
        var request = HttpRequest.newBuilder(URI.create(System.getenv("LINGER_URL") + path))
            .method(method, HttpRequest.BodyPublishers.ofString(json)).header("content-type", "application/json")
            .timeout(java.time.Duration.ofSeconds(40)).build();
        var answer = CLIENT.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() < 300) return answer.body(); // empty with a 204: nothing came due
        if (answer.statusCode() == 404 || answer.statusCode() == 409) return ""; // done already, or not ours any more
        throw new IOException(answer.body());
    }
    public static void main(String[] args) throws InterruptedException {
        while (true) try {
            var job = call("GET", "/topics/" + System.getenv("TOPIC") + "/pop?wait=20s", "").split("\"body\":", 2);
            if (job.length < 2) continue;
            String id = job[0].split("\"id\":\"")[1].split("\"")[0];
            String receipt = job[0].split("\"receipt\":\"")[1].split("\"")[0];
            String end = "/finish?receipt=" + receipt, json = "";
            try { work(job[1].substring(0, job[1].length() - 1)); } catch (RuntimeException failure) {
                end = "/release"; json = "{\"receipt\":\"" + receipt + "\"}"; }
            call("POST", "/jobs/" + id + end, json);
        } catch (IOException away) { Thread.sleep(2_000); } // back off; an unfinished job comes back by its TTR
    }
}
