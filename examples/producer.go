// Adds a job that closes an order later: producer ORDER [DELAY]
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. The job's id is made from the order's number, so adding it
// again changes nothing: the request is repeated until the server has answered.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// add sends the job once and returns the status and the text of the answer.
func add(client *http.Client, job []byte) (int, string, error) {
	url := strings.TrimRight(setting("LINGER_URL", "http://127.0.0.1:9277"), "/") + "/jobs"
	request, err := http.NewRequest("POST", url, bytes.NewReader(job))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("content-type", "application/json")
	if token := os.Getenv("LINGER_TOKEN"); token != "" {
		request.Header.Set("authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(text)), err
}

func fail(line ...any) {
	fmt.Fprintln(os.Stderr, line...)
	os.Exit(1)
}

func main() {
	if len(os.Args) < 2 {
		fail("usage: producer ORDER [DELAY]")
	}
	order, delay := os.Args[1], "30m"
	if len(os.Args) > 2 {
		delay = os.Args[2]
	}
	job, err := json.Marshal(map[string]any{
		"topic": setting("TOPIC", "order-close"), "id": "orders:" + order + ":close",
		"delay": delay, "body": map[string]string{"order": order},
	})
	if err != nil {
		fail(err)
	}
	client, pause := &http.Client{Timeout: 10 * time.Second}, time.Second
	for tries := 0; tries < 8; tries++ {
		status, text, err := add(client, job)
		if err == nil && status < 300 { // 201: added. 200: an earlier try had added it.
			fmt.Println(text)
			return
		}
		if err == nil && status < 500 { // the request is wrong, and repeating it does not help
			fail("add:", status, text)
		}
		fmt.Fprintln(os.Stderr, "add:", status, text, err)
		time.Sleep(pause)
		pause = min(pause*2, 30*time.Second)
	}
	fail("add: the server did not take the job; it is safe to run this again")
}

func min(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}
