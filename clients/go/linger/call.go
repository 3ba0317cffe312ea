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
	"strings"
	"time"
)

const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
	// The longest wait; more would be more than a Duration can count.
	aDay = 24 * time.Hour
)

// RefusedError is an answer with which the server refuses a call: the problem document of RFC 9457.
type RefusedError struct {
	Status     int           `json:"status"`
	Code       string        `json:"code"` // a stable word, such as lease_lost
	Type       string        `json:"type"`
	Detail     string        `json:"detail"` // the first fault, and how to correct it
	RequestID  string        `json:"request_id"`
	Retaken    bool          `json:"retaken"`  // of lease_lost: whether a finish with this receipt would be refused, too
	Revision   int64         `json:"revision"` // of stale_revision: that of the job which is there
	RetryAfter time.Duration `json:"-"`
	Repeated   bool          `json:"-"` // an earlier try of this call may have taken effect
}

func (e *RefusedError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%d %s %s", e.Status, e.Code, e.Detail))
}

// NoAnswerError says that no complete answer of the server came: none at all, or that of something else, such as a proxy.
type NoAnswerError struct {
	Err        error
	Unsent     bool // the server has not seen the call
	hopeless   bool // another try would fail in the same way
	status     int  // that of the answer of something else
	retryAfter time.Duration
}

func (e *NoAnswerError) Error() string { return e.Err.Error() }
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
	safely     repeats = iota // always: the server recognises a repeat, or a second run changes nothing
	unlessLost                // unless its answer may be lost
	ifUndone                  // only if it cannot have taken effect
	ifNotBegun                // only if the server says that it has not begun it
	never                     // not at all
)

// repeatsOf says when an add is sent again.
func repeatsOf(isRepeatable bool) repeats {
	if isRepeatable {
		return safely
	}
	return ifUndone
}

// call is a request, and what is done with its answer.
type call struct {
	method, path string
	raw          []byte         // the body
	fields       map[string]any // the body, if raw is nil
	ifMatch      string         // the header If-Match; none if empty
	read         reader
	wait         time.Duration  // how long the server may wait before it answers
	limit        time.Duration  // of one try; 0: the client's timeout
	giveUpAfter  *time.Duration // the limit of all tries together; nil: the client's timeout
	repeats      repeats
}

// do sends a call until it is answered, or may not be sent again.
func (c *Client) do(ctx context.Context, call call) error {
	if c == nil || c.HTTP == nil || c.Timeout <= 0 {
		return errors.New("the client is not made by New, or its Timeout is not more than 0")
	}
	if call.raw == nil && call.fields != nil {
		var err error
		if call.raw, err = json.Marshal(call.fields); err != nil {
			return err
		}
	}
	end := time.Now().Add(c.Timeout)
	if call.giveUpAfter != nil {
		end = time.Now().Add(*call.giveUpAfter)
	}
	mayHaveHappened := false
	for pause := firstPause; ; pause = shorter(2*pause, longestPause) {
		limit := call.limit
		if limit == 0 {
			limit = c.Timeout
			if call.giveUpAfter == nil {
				limit = time.Until(end)
			}
		}
		err := c.try(ctx, call, shorter(limit, aDay)+shorter(longer(call.wait, 0), aDay))
		if err == nil || ctx.Err() != nil || call.repeats == never {
			return err
		}
		if refused := (*RefusedError)(nil); errors.As(err, &refused) {
			refused.Repeated = mayHaveHappened
		}
		mayHaveHappened = mayHaveHappened || mayHaveTakenEffect(err)
		if !isTemporary(err) || call.repeats == unlessLost && isLost(err) || call.repeats == ifUndone && mayHaveHappened ||
			call.repeats == ifNotBegun && !isNotBegun(err) {
			return err
		}
		// Clients that failed together must not come back together.
		wait := longer(pause/2+time.Duration(time.Now().UnixNano())%(pause/2), retryAfter(err))
		if call.giveUpAfter != nil {
			wait = shorter(wait, longestPause)
		}
		// A pause lasts longer where the machine is busy or this process was stopped.
		if time.Now().Add(wait).After(end) || sleep(ctx, wait) != nil || !time.Now().Before(end) {
			return err
		}
	}
}

// try sends a call once.
func (c *Client) try(ctx context.Context, call call, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, call.method, c.URL+call.path, bytes.NewReader(call.raw))
	if err != nil {
		return &NoAnswerError{Err: err, Unsent: true, hopeless: true}
	}
	request.Header.Set("Content-Type", "application/json")
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	if call.ifMatch != "" {
		request.Header.Set("If-Match", call.ifMatch)
	}
	response, err := c.HTTP.Do(request)
	if err != nil {
		var failed *net.OpError
		isUnsent := errors.As(err, &failed) && failed.Op == "dial"
		return &NoAnswerError{Err: noAnswer(err), Unsent: isUnsent || isDistrust(err), hopeless: isDistrust(err)}
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return &NoAnswerError{Err: noAnswer(err)}
	}
	return interpret(response, body, call.read)
}

func noAnswer(err error) error { return fmt.Errorf("no answer: %w", err) }

func retryAfter(err error) time.Duration {
	var refused *RefusedError
	var unanswered *NoAnswerError
	switch {
	case errors.As(err, &refused):
		return refused.RetryAfter
	case errors.As(err, &unanswered):
		return unanswered.retryAfter
	}
	return 0
}

// isTemporary tells whether a later try may be answered otherwise.
func isTemporary(err error) bool {
	var refused *RefusedError
	var unanswered *NoAnswerError
	switch {
	case errors.As(err, &refused):
		return refused.Status == http.StatusRequestTimeout || refused.Status == http.StatusTooManyRequests || refused.Status >= 500
	case errors.As(err, &unanswered):
		return !unanswered.hopeless
	}
	return false
}

// isLost tells whether a call may have taken effect, and its answer is lost.
func isLost(err error) bool {
	var unanswered *NoAnswerError
	return errors.As(err, &unanswered) && !unanswered.Unsent
}

func mayHaveTakenEffect(err error) bool {
	var refused *RefusedError
	return isLost(err) || errors.As(err, &refused) && refused.Status >= 500 && !isNotBegun(err)
}

// isNotBegun tells whether the server says that it has not begun a call, because it was paused while the call waited.
func isNotBegun(err error) bool {
	var refused *RefusedError
	return errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable && refused.Code == "not_begun"
}

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
