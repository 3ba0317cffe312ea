#!/usr/bin/env php
<?php
// A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies. Needs the extension pcntl.
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand.
const PAUSE = 2; // seconds before the next try after an error
$url = rtrim(getenv('LINGER_URL') ?: 'http://127.0.0.1:9277', '/');
$topic = getenv('TOPIC') ?: 'hello';
$stopping = false;

/** Do the work here. It may run twice for a job; throw an exception to give the job back. */
function work(mixed $body): void
{
    echo json_encode($body), "\n";
}

function complain(string $line): void
{
    fwrite(STDERR, $line . "\n");
}

/** Returns the status and the text of the answer. Throws when no whole answer came. */
function call(string $method, string $path, ?array $body = null): array
{
    global $url;
    $headers = ['content-type: application/json', 'connection: close'];
    if (getenv('LINGER_TOKEN')) {
        $headers[] = 'authorization: Bearer ' . getenv('LINGER_TOKEN');
    }
    $content = $body === null ? '' : json_encode($body);
    $http = ['method' => $method, 'timeout' => 40, 'ignore_errors' => true, 'header' => $headers, 'content' => $content];
    $text = @file_get_contents($url . $path, false, stream_context_create(['http' => $http]));
    if ($text === false || !isset($http_response_header[0])) {
        throw new RuntimeException(error_get_last()['message'] ?? 'no answer');
    }
    foreach ($http_response_header as $header) { // PHP does not notice an answer that was cut off.
        if (preg_match('/^content-length:\s*(\d+)/i', $header, $length) && (int) $length[1] !== strlen($text)) {
            throw new RuntimeException('the answer was cut off');
        }
    }
    return [(int) (explode(' ', $http_response_header[0])[1] ?? 0), $text];
}

/** Returns the next job, or null when none came due or the server did not give one. */
function pop(): ?object
{
    global $topic;
    // SIGTERM ends the process while it polls. The connection closes with it, which hands a job that was
    // about to come to another worker.
    on_stop(SIG_DFL);
    try {
        [$status, $text] = call('GET', "/topics/$topic/pop?wait=20s");
        on_stop(function (): void { $GLOBALS['stopping'] = true; });
        if ($status === 204) {
            return null;
        }
        $job = $status === 200 ? json_decode($text) : null;
        if (isset($job->id, $job->receipt) && property_exists($job, 'body')) {
            return $job;
        }
        complain("pop: $status " . trim($text));
    } catch (RuntimeException $error) {
        complain('pop: ' . $error->getMessage());
    }
    sleep(PAUSE);
    return null;
}

/** Finishes or releases the job. Repeating is safe; if every try fails, the job's TTR brings it back. */
function settle(object $job, string $step, ?array $body = null): void
{
    for ($tries = 0; $tries < 5; $tries++) {
        try {
            [$status, $text] = call('POST', "/jobs/$job->id/$step", $body);
            if ($status < 300) {
                return;
            }
            complain("$step $job->id: $status " . trim($text));
            if ($status < 500) { // 404: it is gone already. 409: it has another holder by now.
                return;
            }
        } catch (RuntimeException $error) {
            complain("$step $job->id: " . $error->getMessage());
        }
        sleep(PAUSE);
    }
}

function on_stop(callable|int $action): void
{
    pcntl_signal(SIGTERM, $action);
    pcntl_signal(SIGINT, $action);
}

pcntl_async_signals(true);
while (!$stopping) {
    $job = pop();
    if ($job === null) {
        continue;
    }
    try {
        work($job->body);
    } catch (Throwable $error) {
        complain("job $job->id: " . $error->getMessage());
        settle($job, 'release', ['receipt' => $job->receipt, 'reason' => get_class($error)]);
        continue;
    }
    settle($job, "finish?receipt=$job->receipt");
}
