// Package linger calls a Linger server, a durable delay queue: Client adds jobs and changes them, Worker runs them.
// It needs the standard library only; its files may be copied into another module.
//
// SPDX-License-Identifier: Apache-2.0
package linger

import (
	"context"
	"crypto/tls"
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

// Job is a job as the server shows it. Those from Pop also have a receipt.
type Job struct {
	ID            string          `json:"id"`
	Topic         string          `json:"topic"`
	State         string          `json:"state"` // delayed, ready, reserved or dead, or as Ended says; later versions may have more
	CreatedAt     time.Time       `json:"created_at"`
	DueAt         time.Time       `json:"due_at"`
	ExpiresAt     time.Time       `json:"expires_at"` // zero: never
	TTR           time.Duration   `json:"-"`
	Attempts      int             `json:"attempts"`     // reservations so far, with this one
	MaxAttempts   int             `json:"max_attempts"` // 0: no limit
	Reason        string          `json:"reason"`       // why the last attempt failed
	Note          string          `json:"note"`         // how far a worker was with it
	NotedAt       time.Time       `json:"noted_at"`     // zero: never
	Traceparent   string          `json:"traceparent"`
	Tracestate    string          `json:"tracestate"`
	Body          json.RawMessage `json:"body"` // byte for byte as it was added
	Receipt       string          `json:"receipt"`
	ReservedUntil time.Time       `json:"reserved_until"`
	Late          time.Duration   `json:"-"`        // from due to delivered
	Revision      *int64          `json:"revision"` // the producer's number of this version; nil if it gave none
	Replayed      bool            `json:"-"`        // the add repeats an earlier one, and changed nothing
	Replaced      bool            `json:"-"`        // the add put this job in the place of an older version
	// Ended says that the job is gone, and the server remembers its id: an add was a repeat. Then only ID, Topic and State are set.
	Ended *Ended `json:"ended"`
}

// Ended says how and when a job ended.
type Ended struct {
	How string    `json:"how"` // such as finished
	At  time.Time `json:"at"`
}

// Get reads a job. One that does not exist is refused with the code job_not_found.
func (c *Client) Get(ctx context.Context, id string) (*Job, error) {
	job := &Job{}
	return job, c.doJob(ctx, "get", id, call{method: "GET", read: jobReader(job, id)})
}

// Cancel deletes a job in any state, also while a worker has it. It returns whether there was one; after a lost answer, a
// missing job counts as deleted by this call.
func (c *Client) Cancel(ctx context.Context, id string) (bool, error) {
	return c.cancel(ctx, id, "")
}

// CancelUnlessReserved is Cancel for a job that no worker has. One that a worker has is refused with the code job_reserved. If an
// answer was lost, the missing job may have been finished by a worker instead.
func (c *Client) CancelUnlessReserved(ctx context.Context, id string) (bool, error) {
	return c.cancel(ctx, id, "?unless_reserved=true")
}

func (c *Client) cancel(ctx context.Context, id, query string) (bool, error) {
	err := c.doJob(ctx, "cancel", id, call{method: "DELETE", path: query, read: readNothing})
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
	read := func(answer reply) (err error) {
		jobs, err = readJobs(answer)
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

// TouchWithNote is Touch, and says in 1 to 256 bytes how far the work is. The next attempt gets the note, too.
func (c *Client) TouchWithNote(ctx context.Context, id, receipt string, ttr time.Duration, note string) error {
	fields := map[string]any{"receipt": receipt, "note": note}
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
	if isNoSegment(id) {
		return fmt.Errorf("%s: an id must not be %q, which no URL can name", name, id)
	}
	call.path = "/jobs/" + url.PathEscape(id) + call.path
	if err := c.do(ctx, call); err != nil {
		return fmt.Errorf("%s %s: %w", name, id, err)
	}
	return nil
}

func isNoSegment(name string) bool { return name == "" || name == "." || name == ".." }
