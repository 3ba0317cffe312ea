// A Linger worker: takes the jobs of $TOPIC one by one and prints their bodies.
// It reads LINGER_URL, LINGER_TOKEN and TOPIC. SIGTERM ends it after the job at hand.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const pause = 2 * time.Second // before the next try after an error

type job struct {
	ID      string          `json:"id"`
	Receipt string          `json:"receipt"`
	Body    json.RawMessage `json:"body"`
}

// work does the work. It may run twice for a job; an error gives the job back.
func work(body json.RawMessage) error {
	_, err := fmt.Println(string(body))
	return err
}

func setting(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

var (
	url    = strings.TrimRight(setting("LINGER_URL", "http://127.0.0.1:9277"), "/")
	topic  = setting("TOPIC", "hello")
	client = http.Client{Timeout: 40 * time.Second}
)

// call returns the status and the text of the answer; an error means that no whole answer came.
func call(ctx context.Context, method, path, body string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("content-type", "application/json")
	if token := os.Getenv("LINGER_TOKEN"); token != "" {
		request.Header.Set("authorization", "Bearer "+token)
	}
	answer, err := client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

// pop returns the next job; nil when none came due.
func pop(ctx context.Context) (*job, error) {
	status, text, err := call(ctx, "GET", "/topics/"+topic+"/pop?wait=20s", "")
	if err != nil || status == http.StatusNoContent {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("%d %s", status, text)
	}
	var next job
	if err := json.Unmarshal(text, &next); err != nil {
		return nil, err
	}
	if next.ID == "" || next.Receipt == "" || next.Body == nil {
		return nil, errors.New("the answer is not a job")
	}
	return &next, nil
}

// settle finishes or releases the job. Repeating is safe; if every try fails, the job's TTR brings it back.
func settle(id, step, body string) {
	for tries := 0; tries < 5; tries++ {
		status, text, err := call(context.Background(), "POST", "/jobs/"+id+"/"+step, body)
		if err == nil && status < 300 {
			return
		}
		fmt.Fprintln(os.Stderr, step, id, status, strings.TrimSpace(string(text)), err)
		if err == nil && status < 500 { // 404: it is gone already. 409: it has another holder by now.
			return
		}
		time.Sleep(pause)
	}
}

func main() {
	// Cancelling a poll closes its connection, which hands a job that was about to come to another worker.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		next, err := pop(ctx)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "pop:", err)
			time.Sleep(pause)
		}
		if err != nil || next == nil {
			continue
		}
		if failure := work(next.Body); failure != nil {
			fmt.Fprintln(os.Stderr, "job", next.ID, failure)
			body, _ := json.Marshal(map[string]string{"receipt": next.Receipt, "reason": failure.Error()})
			settle(next.ID, "release", string(body))
		} else {
			settle(next.ID, "finish?receipt="+next.Receipt, "")
		}
	}
}
