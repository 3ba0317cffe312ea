package linger

import (
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)

// RefusedError is an answer with which the server refuses a call: the problem document of RFC 9457.
type RefusedError struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"` // a stable word, such as lease_lost; empty if the answer is not the server's own
	Type       string        `json:"type"`
	Detail     string        `json:"detail"` // the first fault, and how to mend it
	RequestID  string        `json:"request_id"`
	RetryAfter time.Duration `json:"-"`
	Repeated   bool          `json:"-"` // an earlier try of this call may have taken effect
}

func (e *RefusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Status, e.Code, e.Detail))
}

// NoAnswerError says that no complete answer came.
type NoAnswerError struct {
	Err      error
	Unsent   bool // the server has not seen the call
	hopeless bool // another try would fail in the same way
}

func (e *NoAnswerError) Error() string { return "no answer: " + e.Err.Error() }
func (e *NoAnswerError) Unwrap() error { return e.Err }

// Code returns the code of a refusal, such as job_not_found; empty for any other error.
func Code(err error) string {
	var refused *RefusedError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func wasRepeated(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Repeated
}

// repeats says when a call is sent again after a temporary failure.
type repeats int

const (
	safely        repeats = iota // until the timeout: the server recognises a repeat, or a second run changes nothing
	unlessLost                   // until the timeout, but not once its answer may be lost
	never                        // not at all
	untilAnswered                // until ctx ends
)

// call is a request, and what is done with its answer.
type call struct {
	method, path string
	raw          []byte         // the body
	fields       map[string]any // the body, if raw is nil
	out          any            // takes the answer; nil if there is none, which is 204
	wait         time.Duration  // how long the server may wait before it answers
	limit        time.Duration  // of one try; 0: the client's timeout
	repeats      repeats
}

// do sends a call until it is answered, or may not be sent again. It returns the status of a success.
func (c *Client) do(ctx context.Context, call call) (int, error) {
	if call.raw == nil && call.fields != nil {
		var err error
		if call.raw, err = json.Marshal(call.fields); err != nil {
			return 0, err
		}
	}
	end, mayHaveHappened := time.Now().Add(c.Timeout), false
	for pause := firstPause; ; pause = shorter(2*pause, longestPause) {
		limit := call.limit
		if limit == 0 {
			limit = c.Timeout
			if call.repeats != untilAnswered {
				limit = time.Until(end)
			}
		}
		status, err := c.try(ctx, call, limit+call.wait)
		if err == nil || ctx.Err() != nil || call.repeats == never {
			return status, err
		}
		// Clients that failed together must not come back together.
		wait := pause/2 + time.Duration(time.Now().UnixNano())%(pause/2)
		var refused *RefusedError
		var unanswered *NoAnswerError
		if errors.As(err, &refused) {
			refused.Repeated = mayHaveHappened
			if !refused.isTemporary() && !(call.repeats == untilAnswered && refused.isForeign()) {
				return status, err
			}
			mayHaveHappened = mayHaveHappened || refused.Status >= 500
			wait = longer(wait, refused.RetryAfter)
		} else if errors.As(err, &unanswered) {
			if unanswered.hopeless || call.repeats == unlessLost && !unanswered.Unsent {
				return status, err
			}
			mayHaveHappened = mayHaveHappened || !unanswered.Unsent
		}
		if call.repeats == untilAnswered {
			wait = shorter(wait, longestPause)
		} else if time.Now().Add(wait).After(end) {
			return status, err
		}
		if sleep(ctx, wait) != nil {
			return status, err
		}
	}
}

// try sends a call once.
func (c *Client) try(ctx context.Context, call call, limit time.Duration) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, call.method, c.URL+call.path, bytes.NewReader(call.raw))
	if err != nil {
		return 0, &NoAnswerError{Err: err, Unsent: true, hopeless: true}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		var failed *net.OpError
		isUnsent := errors.As(err, &failed) && failed.Op == "dial"
		return 0, &NoAnswerError{err, isUnsent || isDistrust(err), isDistrust(err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, &NoAnswerError{Err: err}
	}
	if response.StatusCode >= 300 {
		return response.StatusCode, refusal(response, body)
	}
	// A success that is not the server's own, such as the page of a proxy, is no answer.
	if call.out == nil && response.StatusCode != http.StatusNoContent {
		return 0, &NoAnswerError{Err: fmt.Errorf("status %d in place of 204", response.StatusCode)}
	}
	if call.out != nil {
		if err := json.Unmarshal(body, call.out); err != nil {
			return 0, &NoAnswerError{Err: err}
		}
	}
	return response.StatusCode, nil
}

func refusal(response *http.Response, body []byte) *RefusedError {
	refused := &RefusedError{}
	if json.Unmarshal(body, refused) != nil || refused.Code == "" {
		refused = &RefusedError{Detail: first(string(body), 200)}
	}
	refused.Status = response.StatusCode
	if seconds, err := strconv.Atoi(response.Header.Get("Retry-After")); err == nil {
		refused.RetryAfter = time.Duration(seconds) * time.Second
	}
	return refused
}

// isTemporary tells whether a later try may be answered otherwise.
func (e *RefusedError) isTemporary() bool {
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// isForeign tells whether something in front of the server may have answered in its place.
func (e *RefusedError) isForeign() bool { return e.Status == http.StatusNotFound && e.Code == "" }

// isDistrust tells whether the server's certificate was refused, which no other try mends.
func isDistrust(err error) bool {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	return errors.As(err, &authority) || errors.As(err, &name) || errors.As(err, &invalid)
}

// first is the beginning of a text, up to so many bytes of UTF-8.
func first(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes]
	}
	return strings.ToValidUTF8(text, "")
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func shorter(a, b time.Duration) time.Duration {
	if a < b {
		return a
	}
	return b
}

func longer(a, b time.Duration) time.Duration {
	if a > b {
		return a
	}
	return b
}
