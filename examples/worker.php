#!/usr/bin/env php
<?php // A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies.
[$url, $topic] = [getenv('LINGER_URL') ?: 'http://127.0.0.1:9277', getenv('TOPIC') ?: 'hello'];

function work($body) { // May run twice for a job; throwing gives the job back.
    echo json_encode($body), "\n";
}

function call($method, $path, $body = null) {
    global $url;
    $http = ['method' => $method, 'timeout' => 40, 'ignore_errors' => true,
        'header' => 'content-type: application/json', 'content' => $body ? json_encode($body) : ''];
    $answer = @file_get_contents($url . $path, false, stream_context_create(['http' => $http]));
    $status = (int) (explode(' ', $http_response_header[0] ?? '')[1] ?? 0);
    if ($status == 404 || $status == 409) return null; // done already, or somebody else's by now
    if ($answer === false || $status >= 300) throw new RuntimeException("$method $path: status $status");
    return json_decode($answer);
}
while (true) {
    try {
        $job = call('GET', "/topics/$topic/pop?wait=20s");
        if (!$job) continue; // 204: nothing came due; ask again
        try { $failure = work($job->body); } catch (Throwable $failure) {}
        if (!$failure) call('POST', "/jobs/$job->id/finish?receipt=$job->receipt");
        else call('POST', "/jobs/$job->id/release", ['receipt' => $job->receipt, 'reason' => get_class($failure)]);
    } catch (RuntimeException $error) { // away or overloaded: back off; an unfinished job comes back by its TTR
        fwrite(STDERR, $error->getMessage() . "\n");
        sleep(2);
    }
}
