#!/usr/bin/env php
<?php
// Adds a job that closes an order later: producer.php ORDER [DELAY]
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
// again changes nothing: the request is repeated until the server has answered.
$url = rtrim(getenv('LINGER_URL') ?: 'http://127.0.0.1:9277', '/');
$topic = getenv('TOPIC') ?: 'order-close';

/** Sends the job once. Returns the status, 0 without a whole answer, and the text of the answer. */
function add(array $job): array
{
    global $url;
    $headers = ['content-type: application/json', 'connection: close'];
    if (getenv('LINGER_TOKEN')) {
        $headers[] = 'authorization: Bearer ' . getenv('LINGER_TOKEN');
    }
    $http = ['method' => 'POST', 'timeout' => 10, 'ignore_errors' => true, 'header' => $headers,
        'content' => json_encode($job)];
    $text = @file_get_contents("$url/jobs", false, stream_context_create(['http' => $http]));
    if ($text === false || !isset($http_response_header[0])) {
        return [0, error_get_last()['message'] ?? 'no answer'];
    }
    foreach ($http_response_header as $header) { // PHP does not notice an answer that was cut off.
        if (preg_match('/^content-length:\s*(\d+)/i', $header, $length) && (int) $length[1] !== strlen($text)) {
            return [0, 'the answer was cut off'];
        }
    }
    return [(int) (explode(' ', $http_response_header[0])[1] ?? 0), trim($text)];
}

if ($argc < 2) {
    fwrite(STDERR, "usage: producer.php ORDER [DELAY]\n");
    exit(1);
}
$job = ['topic' => $topic, 'id' => "orders:$argv[1]:close", 'delay' => $argv[2] ?? '30m', 'body' => ['order' => $argv[1]]];
for ($tries = 0, $pause = 1; $tries < 8; $tries++, $pause = min($pause * 2, 30)) {
    [$status, $text] = add($job);
    if ($status >= 200 && $status < 300) { // 201: added. 200: an earlier try had added it.
        echo $text, "\n";
        exit(0);
    }
    fwrite(STDERR, "add: $status $text\n");
    if ($status >= 400 && $status < 500) { // the request is wrong, and repeating it does not help
        exit(1);
    }
    sleep($pause);
}
fwrite(STDERR, "add: the server did not take the job; it is safe to run this again\n");
exit(1);
