// The program that tests/it/libraries drives: `cases NAME` runs a case against LINGER_URL with LINGER_TOKEN. It prints a JSON
// object per line, and reads from stdin what it waits for. clients/python/cases.py does the same.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/example-org/linger/clients/go/linger"
)

type object = map[string]any

var (
	client *linger.Client
	input  = bufio.NewReader(os.Stdin)
	output sync.Mutex
)

func say(line object) {
	output.Lock()
	defer output.Unlock()
	text, err := json.Marshal(line)
	check(err)
	_, err = os.Stdout.Write(append(text, '\n'))
	check(err)
}

// line waits for the next line from stdin.
func line() (string, bool) {
	text, err := input.ReadString('\n')
	return text[:max(len(text)-1, 0)], err == nil
}

func max(a, b int) int {
	if a > b {
		return a
	}
	return b
}

// failure is what a caller can know of an error.
func failure(err error) any {
	var refused *linger.RefusedError
	var unanswered *linger.NoAnswerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return object{
			"status": refused.Status, "code": refused.Code, "type": refused.Type, "detail": refused.Detail,
			"request_id": refused.RequestID, "text": err.Error(),
		}
	case errors.As(err, &unanswered):
		return object{"no_answer": true, "unsent": unanswered.Unsent, "text": err.Error()}
	}
	return object{"text": textOf(err)}
}

// textOf is the text of an error; nil if it has none.
func textOf(err error) (text any) {
	defer func() { _ = recover() }()
	return err.Error()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// add adds the body that it reads.
func add(ctx context.Context) {
	body, _ := line()
	job, err := client.Add(ctx, linger.NewJob{Topic: "t", Body: json.RawMessage(body)})
	if err != nil {
		say(object{"failed": failure(err)})
		return
	}
	say(object{"id": job.ID, "replayed": job.Replayed, "body": string(job.Body)})
}

func addMany(ctx context.Context) {
	added, err := client.AddMany(ctx, []linger.NewJob{{Topic: "t", Body: 1}, {Topic: "no topic"}, {Topic: "t", Body: "two"}})
	check(err)
	for _, added := range added {
		var failed any
		if added.Err != nil {
			failed = failure(added.Err)
		}
		say(object{"id": added.ID, "replayed": added.Replayed, "failed": failed})
	}
}

// calls makes each call of a producer and of the holder of a job.
func calls(ctx context.Context) {
	job := linger.NewJob{
		Topic: "t", ID: "a:+=@~", Body: object{"n": 1}, Delay: 90 * time.Second, TTR: 90500 * time.Millisecond,
		MaxAttempts: linger.NoLimit, Retry: []time.Duration{time.Hour, 90 * time.Minute},
		Expire: 7*24*time.Hour + 500*time.Millisecond, OnExpiry: "delete",
	}
	for range []int{1, 2} {
		added, err := client.Add(ctx, job)
		check(err)
		say(object{
			"id": added.ID, "replayed": added.Replayed, "state": added.State, "ttr": added.TTR.Seconds(),
			"expires": added.ExpiresAt.Sub(added.DueAt).Seconds(),
		})
	}
	_, err := client.Add(ctx, linger.NewJob{Topic: "t", ID: job.ID})
	say(object{"other": failure(err)})
	at := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	later, err := client.RescheduleAt(ctx, job.ID, at)
	check(err)
	say(object{"at": later.DueAt.Equal(at)})
	_, err = client.Reschedule(ctx, job.ID, 0)
	check(err)
	found, err := client.Get(ctx, job.ID)
	check(err)
	say(object{"state": found.State, "body": string(found.Body), "max_attempts": found.MaxAttempts})
	_, err = client.Get(ctx, "none")
	say(object{"missing": linger.Code(err)})

	poll := linger.Poll{Topics: []string{"urgent", "t"}, Max: 5, Wait: 50 * time.Millisecond, TTR: time.Minute, Worker: "w 1"}
	reserved := pop(ctx, poll)
	none, err := client.Pop(ctx, poll)
	check(err)
	say(object{"jobs": len(none)})
	check(client.TouchWithNote(ctx, reserved.ID, reserved.Receipt, 0, "3 of 7"))
	check(client.Touch(ctx, reserved.ID, reserved.Receipt, time.Hour))
	say(object{"touched": reserved.ID})
	_, err = client.CancelUnlessReserved(ctx, job.ID)
	say(object{"kept": failure(err)})
	line()
	now := time.Duration(0)
	check(client.Release(ctx, reserved.ID, reserved.Receipt, &now, "later"))
	reserved = pop(ctx, poll)
	say(object{"reason": reserved.Reason, "note": reserved.Note, "noted": !reserved.NotedAt.IsZero()})
	check(client.Release(ctx, reserved.ID, reserved.Receipt, nil, "much later"))
	_, err = client.Reschedule(ctx, job.ID, 0)
	check(err)
	reserved = pop(ctx, poll)
	check(client.ReleaseAt(ctx, reserved.ID, reserved.Receipt, at, "in 2100"))
	waiting, err := client.Get(ctx, job.ID)
	check(err)
	say(object{"at": waiting.DueAt.Equal(at)})
	_, err = client.Reschedule(ctx, job.ID, 0)
	check(err)
	reserved = pop(ctx, poll)
	check(client.Bury(ctx, reserved.ID, reserved.Receipt, "no such order"))
	say(object{"buried": reserved.ID})
	line()
	requeued, err := client.RequeueAt(ctx, job.ID, at)
	check(err)
	say(object{"state": requeued.State, "at": requeued.DueAt.Equal(at)})
	for _, cancel := range []func(context.Context, string) (bool, error){client.CancelUnlessReserved, client.Cancel} {
		cancelled, err := cancel(ctx, job.ID)
		check(err)
		say(object{"cancelled": cancelled})
	}
}

func pop(ctx context.Context, poll linger.Poll) *linger.Job {
	jobs, err := client.Pop(ctx, poll)
	check(err)
	if len(jobs) != 1 || jobs[0].ReservedUntil.IsZero() {
		panic("no job")
	}
	return jobs[0]
}

// late finishes a job when it is told to.
func late(ctx context.Context) {
	job := pop(ctx, linger.Poll{Topics: []string{"t"}, Wait: 20 * time.Second})
	say(object{"popped": job.ID})
	line()
	say(object{"failed": failure(client.Finish(ctx, job.ID, job.Receipt))})
}

// popOnce pops once.
func popOnce(ctx context.Context) {
	jobs, err := client.Pop(ctx, linger.Poll{Topics: []string{"t"}})
	if err != nil {
		say(object{"failed": failure(err)})
		return
	}
	say(object{"jobs": len(jobs)})
}

// silent is an error that has no text.
type silent struct{}

func (silent) Error() string { panic("there is no text") }

// endOddly does what a handler may do besides its work.
func endOddly(job *linger.Job) error {
	switch string(job.Body) {
	case `"fail"`:
		return errors.New("psp timeout")
	case `"panic"`:
		panic("psp broken")
	case `"bury"`:
		return linger.Bury("no such order")
	case `"silent"`:
		return silent{}
	case `"exit"`:
		runtime.Goexit()
	case `"nothing"`:
		panic(nil)
	case `"change"`:
		job.ID, job.Receipt = "another", strings.Repeat("0", 32)
	}
	return nil
}

// worker runs jobs whose bodies say how they end: `worker [PARALLEL [TTR_MS [DRAIN_MS [HOOK]]]]`. A job whose body is
// "wait" waits for a line with its id. The hook says each event, and then may "raise" or "wait" for such a line; there may also
// be "none".
func worker(numbers [3]int, hook string) {
	var gates sync.Map
	gate := func(id string) chan struct{} {
		gate, _ := gates.LoadOrStore(id, make(chan struct{}, 9))
		return gate.(chan struct{})
	}
	go func() {
		for id, more := line(); more; id, more = line() {
			gate(id) <- struct{}{}
		}
	}()
	w := linger.Worker{
		Client: client, Topics: []string{"t"}, Parallel: numbers[0],
		TTR: time.Duration(numbers[1]) * time.Millisecond, Drain: drain(numbers[2]),
		Handler: func(ctx context.Context, job *linger.Job) error {
			say(object{"runs": job.ID, "body": string(job.Body), "receipt": job.Receipt})
			if string(job.Body) == `"note"` && job.Note == "" {
				check(linger.SetNote(ctx, "resume at 41,200"))
				say(object{"noted": job.ID})
				<-gate(job.ID)
				return errors.New("halfway")
			}
			if job.Note != "" {
				say(object{"resumes": job.ID, "note": job.Note})
			}
			if err := endOddly(job); err != nil {
				return err
			}
			if string(job.Body) == `"wait"` {
				select {
				case <-gate(job.ID):
				case <-ctx.Done():
					say(object{"told": job.ID, "at": time.Now().UTC().Format("2006-01-02T15:04:05.000Z")})
					<-gate(job.ID)
				}
			}
			// Also after it was told to stop, which must not finish the job.
			say(object{"returns": job.ID})
			return nil
		},
	}
	if hook != "none" {
		w.OnEvent = func(event string, job *linger.Job, err error) {
			line := object{"event": event, "error": failure(err)}
			if job != nil {
				line["id"] = job.ID
			}
			say(line)
			if hook == "raise" && event == "away" {
				runtime.Goexit()
			}
			if hook == "raise" {
				panic("the hook is broken")
			}
			if hook == "wait" && job != nil {
				<-gate(job.ID)
			}
		}
	}
	say(object{"ended": failure(w.RunUntilSignal())})
}

// drain is that of a worker; -1 is the longest.
func drain(ms int) time.Duration {
	if ms < 0 {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// protocol makes a call to a server that offers HTTP/2, too, and says what was spoken.
func protocol(ctx context.Context) {
	refuse := func(w http.ResponseWriter, r *http.Request) {
		say(object{"protocol": r.Proto})
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusConflict)
		_, err := w.Write([]byte(`{"type":"about:blank","status":409,"code":"job_exists","detail":"no"}`))
		check(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(refuse))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client, err := linger.New(server.URL, "")
	check(err)
	trusted := server.Client().Transport.(*http.Transport).TLSClientConfig
	client.HTTP.Transport.(*http.Transport).TLSClientConfig = trusted
	_, err = client.Add(ctx, linger.NewJob{Topic: "t"})
	say(object{"code": linger.Code(err)})
}

// workerArguments are the numbers of the case worker, and its hook.
func workerArguments(texts []string) (numbers [3]int, hook string) {
	for i, text := range texts {
		if i == len(numbers) {
			return numbers, text
		}
		var err error
		numbers[i], err = strconv.Atoi(text)
		check(err)
	}
	return numbers, ""
}

func main() {
	var err error
	client, err = linger.New(os.Getenv("LINGER_URL"), os.Getenv("LINGER_TOKEN"))
	check(err)
	ctx := context.Background()
	switch os.Args[1] {
	case "add":
		add(ctx)
	case "add-many":
		addMany(ctx)
	case "calls":
		calls(ctx)
	case "requeue":
		requeued, err := client.Requeue(ctx, "a", 0)
		check(err)
		say(object{"state": requeued.State})
	case "many":
		many(ctx)
	case "patches":
		patches(ctx)
	case "arguments":
		arguments(ctx)
	case "transports":
		transports(ctx)
	case "protocol":
		protocol(ctx)
	case "values":
		values(ctx)
	case "late":
		late(ctx)
	case "pop":
		popOnce(ctx)
	case "versions":
		versions(ctx)
	case "replace-once":
		replaceOnce(ctx, os.Args[2], os.Args[3])
	case "holder":
		holder(ctx)
	case "ended":
		ended(ctx)
	case "schedules":
		schedules(ctx)
	case "schedules-again":
		schedulesAgain(ctx)
	case "list-schedules":
		listSchedules(ctx)
	case "worker":
		worker(workerArguments(os.Args[2:]))
	default:
		panic(os.Args[1])
	}
}
