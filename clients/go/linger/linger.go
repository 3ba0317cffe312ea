// Package linger calls a Linger server, a durable delay queue: Client adds jobs and changes them, Worker runs them.
// It needs the standard library only; its files may be copied into another module.
//
// SPDX-License-Identifier: Apache-2.0
package linger

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// NoLimit as MaxAttempts has a job tried until it is finished.
const NoLimit = -1

// Client calls one server. Many goroutines may share it; it keeps connections open.
//
// A call that fails is sent again until Timeout: when no answer came, and after 408, 429 and 5xx, with pauses that grow and
// are at least as long as the server's Retry-After. Calls fail with *RefusedError if the server answered, else with
// *NoAnswerError: then the call may have taken effect all the same. An answer in another form than the server's counts as none.
type Client struct {
	URL     string        // such as http://localhost:9277
	Token   string        // sent as Authorization: Bearer; none if empty
	Timeout time.Duration // of a call with all its tries, without the wait of a pop
	HTTP    *http.Client  // for certificates of your own
}

// New makes a client with a timeout of ten seconds. The URL has the scheme http or https, a host, and perhaps a port and a path,
// without a user and a query. The token may be empty.
//
// The client has a copy of http.DefaultTransport, which keeps more connections. If the program has replaced that by another type,
// for example to trace calls, the client uses it as it is.
func New(url, token string) (*Client, error) {
	url = strings.TrimRight(url, "/")
	if err := checkURL(url); err != nil {
		return nil, err
	}
	if err := checkToken(token); err != nil {
		return nil, err
	}
	// A redirected POST would become a GET.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{url, token, 10 * time.Second, &http.Client{Transport: transport(), CheckRedirect: stay}}, nil
}

func transport() http.RoundTripper {
	found, isUsual := http.DefaultTransport.(*http.Transport)
	switch {
	case isUsual && found != nil:
		found = found.Clone()
	case !isUsual && http.DefaultTransport != nil:
		return http.DefaultTransport
	default:
		found = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	// HTTP/1 only: with HTTP/2, as proxies speak it, all calls share a connection, and go on into one that is dead.
	found.ForceAttemptHTTP2, found.TLSNextProto = false, map[string]func(string, *tls.Conn) http.RoundTripper{}
	// Shorter than the server's keep_alive_timeout.
	found.IdleConnTimeout, found.MaxIdleConnsPerHost = time.Minute, 16
	return found
}

// checkURL shows no password in its errors.
func checkURL(address string) error {
	parsed, err := url.Parse(address)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	if err != nil {
		return fmt.Errorf("the URL of the server cannot be read: %w", err)
	}
	_, err = strconv.ParseUint(parsed.Port(), 10, 16)
	hasPort := err == nil || parsed.Port() == ""
	if parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" || !hasPort {
		return fmt.Errorf("%q must be the URL of a server, such as http://localhost:9277", parsed.Redacted())
	}
	if parsed.User != nil || strings.ContainsAny(address, "?# ") {
		return fmt.Errorf("%q must be the URL of a server, without a user, a query, a fragment and spaces", parsed.Redacted())
	}
	return nil
}

// checkToken refuses what no header can carry. It does not show the token.
func checkToken(token string) error {
	for _, char := range token {
		if char <= ' ' || char > '~' {
			return errors.New("the token must have visible ASCII characters only, and no line break at its end")
		}
	}
	return nil
}

// NewJob is a job to add. Only Topic is required; what is left out follows the settings of the topic.
type NewJob struct {
	Topic       string
	ID          string          // made by the client if empty
	Body        any             // as encoding/json writes it; a json.RawMessage is kept byte for byte
	Delay       time.Duration   // from now, to the millisecond
	At          time.Time       // in place of Delay
	TTR         time.Duration   // how long a reservation lasts; 1 s to 24 h
	MaxAttempts int             // or NoLimit
	Retry       []time.Duration // the waits between attempts
	Expire      time.Duration   // from when on it is not delivered, from its due time
	ExpireAt    time.Time       // in place of Expire
	OnExpiry    string          // what happens then, with one of these: "dead" or "delete"
}

// definition is the JSON of a job. Its body is not given to encoding/json, which would change spaces and letters.
func (j *NewJob) definition() ([]byte, error) {
	if j.ID == "" {
		random := make([]byte, 16)
		if _, err := rand.Read(random); err != nil {
			return nil, err
		}
		j.ID = hex.EncodeToString(random)
	}
	fields := map[string]any{"topic": j.Topic, "id": j.ID}
	setDuration(fields, "delay", j.Delay)
	setDuration(fields, "ttr", j.TTR)
	if !j.At.IsZero() {
		fields["at"] = instant(j.At)
	}
	setAttempts(fields, j.MaxAttempts, j.Retry)
	setExpiry(fields, j.Expire, j.ExpireAt, j.OnExpiry)
	return withBody(fields, j.Body)
}

func setAttempts(fields map[string]any, most int, retry []time.Duration) {
	if most != 0 {
		fields["max_attempts"] = most
	}
	if most == NoLimit {
		fields["max_attempts"] = 0
	}
	if retry == nil {
		return
	}
	steps := make([]string, len(retry))
	for i, step := range retry {
		steps[i] = text(step)
	}
	fields["retry"] = steps
}

func setExpiry(fields map[string]any, after time.Duration, at time.Time, what string) {
	setDuration(fields, "expire", after)
	if !at.IsZero() {
		fields["expire"] = instant(at)
	}
	if what != "" {
		fields["on_expiry"] = what
	}
}

// withBody is a JSON object with a body, which is not given to encoding/json if it is raw.
func withBody(fields map[string]any, value any) ([]byte, error) {
	body, isRaw := value.(json.RawMessage)
	if !isRaw {
		var err error
		if body, err = json.Marshal(value); err != nil {
			return nil, err
		}
	} else if !json.Valid(body) {
		return nil, errors.New("the body is not JSON")
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	object = object[:len(object)-1]
	if len(fields) > 0 {
		object = append(object, ',')
	}
	return append(append(append(object, `"body":`...), body...), '}'), nil
}

func text(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// instant is in UTC, since RFC 3339 has no seconds in offsets.
func instant(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func setDuration(fields map[string]any, name string, d time.Duration) {
	if d != 0 {
		fields[name] = text(d)
	}
}

// Job is a job as the server shows it. Those from Pop also have a receipt.
type Job struct {
	ID            string          `json:"id"`
	Topic         string          `json:"topic"`
	State         string          `json:"state"` // delayed, ready, reserved or dead; later versions may have more
	CreatedAt     time.Time       `json:"created_at"`
	DueAt         time.Time       `json:"due_at"`
	ExpiresAt     time.Time       `json:"expires_at"` // zero: never
	TTR           time.Duration   `json:"-"`
	Attempts      int             `json:"attempts"`     // reservations so far, with this one
	MaxAttempts   int             `json:"max_attempts"` // 0: no limit
	Reason        string          `json:"reason"`       // why the last attempt failed
	Traceparent   string          `json:"traceparent"`
	Tracestate    string          `json:"tracestate"`
	Body          json.RawMessage `json:"body"` // byte for byte as it was added
	Receipt       string          `json:"receipt"`
	ReservedUntil time.Time       `json:"reserved_until"`
	Late          time.Duration   `json:"-"` // from due to delivered
	Replayed      bool            `json:"-"` // the add found this job there: it repeats an earlier one
}

// Add adds a job and returns it, with Replayed if the server had it already.
func (c *Client) Add(ctx context.Context, job NewJob) (*Job, error) {
	definition, err := job.definition()
	if err != nil {
		return nil, err
	}
	added := &Job{}
	read := func(status int, body []byte) error {
		if status != http.StatusCreated && status != http.StatusOK {
			return errors.New("the status is neither 201 nor 200")
		}
		err := readJob(added, job.ID, body)
		added.Replayed = status == http.StatusOK
		return err
	}
	if err := c.do(ctx, call{method: "POST", path: "/jobs", raw: definition, read: read}); err != nil {
		return nil, fmt.Errorf("add %s: %w", job.ID, err)
	}
	return added, nil
}

// Added is the result of one job of AddMany.
type Added struct {
	ID       string
	Replayed bool
	Err      *RefusedError // nil if the job is there
}

// AddMany adds up to 1,000 jobs in one call. The results are in the order of the jobs; one that is refused does not affect
// the others.
func (c *Client) AddMany(ctx context.Context, jobs []NewJob) ([]Added, error) {
	definitions, added := make([][]byte, len(jobs)), make([]Added, len(jobs))
	for i, job := range jobs {
		var err error
		if definitions[i], err = job.definition(); err != nil {
			return nil, fmt.Errorf("add job %d: %w", i, err)
		}
		added[i].ID = job.ID
	}
	raw := append(append([]byte(`{"jobs":[`), bytes.Join(definitions, []byte(","))...), "]}"...)
	read := func(status int, body []byte) error { return readAdded(added, status, body) }
	if err := c.do(ctx, call{method: "POST", path: "/batch/jobs", raw: raw, read: read}); err != nil {
		return nil, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	return added, nil
}

// Get reads a job. One that does not exist is refused with the code job_not_found.
func (c *Client) Get(ctx context.Context, id string) (*Job, error) {
	job := &Job{}
	return job, c.doJob(ctx, "get", id, call{method: "GET", read: jobReader(job, id)})
}

// Cancel deletes a job in any state, also while a worker has it. It returns whether there was one; after a lost answer, a
// missing job counts as deleted by this call.
func (c *Client) Cancel(ctx context.Context, id string) (bool, error) {
	err := c.doJob(ctx, "cancel", id, call{method: "DELETE", read: readNothing})
	if Code(err) == "job_not_found" {
		return wasRepeated(err), nil
	}
	return err == nil, err
}

// Requeue makes a dead letter due after delay; 0 is now. Its attempts start anew. After a lost answer, a job that is no dead
// letter counts as requeued by this call.
func (c *Client) Requeue(ctx context.Context, id string, delay time.Duration) (*Job, error) {
	return c.requeue(ctx, id, map[string]any{"delay": text(delay)})
}

// RequeueAt makes a dead letter due at this time, as Requeue does.
func (c *Client) RequeueAt(ctx context.Context, id string, at time.Time) (*Job, error) {
	return c.requeue(ctx, id, map[string]any{"at": instant(at)})
}

func (c *Client) requeue(ctx context.Context, id string, fields map[string]any) (*Job, error) {
	job := &Job{}
	err := c.doJob(ctx, "requeue", id, call{method: "POST", path: "/requeue", fields: fields, read: jobReader(job, id)})
	if Code(err) == "not_dead" && wasRepeated(err) {
		return c.Get(ctx, id)
	}
	return job, err
}

// Poll says what to pop.
type Poll struct {
	Topics []string      // the most urgent first
	Max    int           // the most jobs; 0 is 1
	Wait   time.Duration // for the first job, up to a minute
	TTR    time.Duration // how long the reservations last; 0: each job's own TTR
	Worker string        // who reserves, for the jobs' histories
}

// Pop reserves ready jobs; none if none became ready within Wait. The end of ctx drops the poll, which costs no attempt. A pop
// is not sent again if its answer was lost: the jobs that it may have reserved come back after their TTR.
func (c *Client) Pop(ctx context.Context, poll Poll) ([]*Job, error) {
	return c.pop(ctx, poll, unlessLost)
}

func (c *Client) pop(ctx context.Context, poll Poll, repeats repeats) ([]*Job, error) {
	fields := map[string]any{"topics": poll.Topics, "wait": text(poll.Wait)}
	setDuration(fields, "ttr", poll.TTR)
	if poll.Max != 0 {
		fields["max"] = poll.Max
	}
	if poll.Worker != "" {
		fields["worker"] = poll.Worker
	}
	var jobs []*Job
	read := func(status int, body []byte) (err error) {
		jobs, err = readJobs(status, body)
		return err
	}
	// By POST, because the transport repeats a GET on its own.
	err := c.do(ctx, call{method: "POST", path: "/batch/pop", fields: fields, read: read, wait: poll.Wait, repeats: repeats})
	if err != nil {
		return nil, fmt.Errorf("pop %s: %w", strings.Join(poll.Topics, " "), err)
	}
	return jobs, nil
}

// Finish says that the work is done; the job is gone. The code lease_lost means that another worker has got it since.
func (c *Client) Finish(ctx context.Context, id, receipt string) error {
	return c.hold(ctx, id, "finish", map[string]any{"receipt": receipt}, nil)
}

// Release gives a job back. The next attempt follows its schedule, or the delay if that is not nil. The reason, up to 1,024
// bytes, stays with the job.
func (c *Client) Release(ctx context.Context, id, receipt string, delay *time.Duration, reason string) error {
	fields := map[string]any{"receipt": receipt, "reason": reason}
	if delay != nil {
		fields["delay"] = text(*delay)
	}
	return c.hold(ctx, id, "release", fields, nil)
}

// ReleaseAt gives a job back, as Release does. The next attempt comes at this time.
func (c *Client) ReleaseAt(ctx context.Context, id, receipt string, at time.Time, reason string) error {
	fields := map[string]any{"receipt": receipt, "reason": reason, "at": instant(at)}
	return c.hold(ctx, id, "release", fields, nil)
}

// Touch makes a reservation last ttr from now; 0: the job's own TTR.
func (c *Client) Touch(ctx context.Context, id, receipt string, ttr time.Duration) error {
	fields := map[string]any{"receipt": receipt}
	setDuration(fields, "ttr", ttr)
	return c.hold(ctx, id, "touch", fields, nil)
}

// Bury makes a job a dead letter, with a reason of up to 1,024 bytes.
func (c *Client) Bury(ctx context.Context, id, receipt, reason string) error {
	return c.hold(ctx, id, "bury", map[string]any{"receipt": receipt, "reason": reason}, nil)
}

// hold is a call by the holder of a reservation. A repeat that finds its first try done is a success.
func (c *Client) hold(ctx context.Context, id, step string, fields map[string]any, giveUpAfter *time.Duration) error {
	request := call{method: "POST", path: "/" + step, fields: fields, read: readNothing, giveUpAfter: giveUpAfter}
	if step != "finish" {
		request.read = jobReader(&Job{}, id)
	}
	err := c.doJob(ctx, step, id, request)
	if step == "finish" && Code(err) == "job_not_found" && wasRepeated(err) {
		return nil
	}
	return err
}

// doJob makes a call about a job, whose path begins below that of the job.
func (c *Client) doJob(ctx context.Context, name, id string, call call) error {
	if id == "" || id == "." || id == ".." {
		return fmt.Errorf("%s: an id must not be %q, which no URL can name", name, id)
	}
	call.path = "/jobs/" + url.PathEscape(id) + call.path
	if err := c.do(ctx, call); err != nil {
		return fmt.Errorf("%s %s: %w", name, id, err)
	}
	return nil
}
