package main

// The cases that only Go has, and its arguments.

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/example-org/linger/clients/go/linger"
)

// arguments gives values that make no sense, and says what comes of it.
func arguments(ctx context.Context) {
	add := func(job linger.NewJob) func() error {
		return func() error {
			_, err := client.Add(ctx, job)
			return err
		}
	}
	connect := func(url, token string) func() error {
		return func() error {
			_, err := linger.New(url, token)
			return err
		}
	}
	run := func(worker linger.Worker) func() error { return func() error { return worker.Run(ctx) } }
	topics, handle := []string{"t"}, func(context.Context, *linger.Job) error { return nil }
	for _, given := range []struct {
		name string
		call func() error
	}{
		{"an empty topic", add(linger.NewJob{})},
		{"a negative delay", add(linger.NewJob{Topic: "t", Delay: -time.Second})},
		{"a negative number of attempts", add(linger.NewJob{Topic: "t", MaxAttempts: -5})},
		{"a job without an id", func() error { return client.Finish(ctx, "", "") }},
		{"a job that is a folder", func() error { _, err := client.Cancel(ctx, ".."); return err }},
		{"an empty receipt", func() error { return client.Finish(ctx, "a", "") }},
		{"a negative wait", func() error { _, err := client.Pop(ctx, linger.Poll{Topics: topics, Wait: -time.Minute}); return err }},
		{"an empty note", func() error { return client.TouchWithNote(ctx, "a", strings.Repeat("0", 32), 0, "") }},
		{"a note outside of a handler", func() error { return linger.SetNote(ctx, "x") }},
		{"no client", run(linger.Worker{Topics: topics, Handler: handle})},
		{"no topics", run(linger.Worker{Client: client, Handler: handle})},
		{"no handler", run(linger.Worker{Client: client, Topics: topics})},
		{"a negative drain", run(linger.Worker{Client: client, Topics: topics, Handler: handle, Drain: -1})},
		{"a negative number of places", run(linger.Worker{Client: client, Topics: topics, Handler: handle, Parallel: -1})},
		{"a client that is not of New", func() error { return new(linger.Client).Finish(ctx, "a", "") }},
		{"a token with a line break", connect("http://localhost", "secret\n")},
		{"a URL without a scheme", connect("localhost:9711", "")},
		{"a URL without a host", connect("http://:9711", "")},
		{"a URL of another scheme", connect("ftp://localhost", "")},
		{"a URL with a query", connect("http://localhost/?token=x", "")},
		{"a URL with a password", connect("http://user:secret@localhost", "")},
		{"a URL with a port that is none", connect("http://localhost:99999", "")},
		{"a URL that cannot be read", connect("http://user:secret@local host", "")},
	} {
		err := given.call()
		kind := "other"
		if linger.Code(err) != "" {
			kind = "refused"
		}
		say(object{"given": given.name, "error": kind, "text": fmt.Sprint(err)})
	}
}

// counting counts what goes through a transport.
type counting struct {
	http.RoundTripper
	calls *int
}

func (c counting) RoundTrip(request *http.Request) (*http.Response, error) {
	*c.calls++
	return c.RoundTripper.RoundTrip(request)
}

// transports adds a job with each type of default transport that a program may have.
func transports(ctx context.Context) {
	usual, calls := http.DefaultTransport, 0
	for _, transport := range []http.RoundTripper{usual, counting{usual, &calls}, nil, (*http.Transport)(nil)} {
		http.DefaultTransport = transport
		client, err := linger.New(client.URL, client.Token)
		check(err)
		_, err = client.Add(ctx, linger.NewJob{Topic: "t"})
		check(err)
	}
	say(object{"counted": calls})
}

// values runs a job whose handler ends the context of Run, and looks at its own.
func values(ctx context.Context) {
	type key struct{}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, key{}, "a value"), time.Hour)
	defer cancel()
	worker := linger.Worker{Client: client, Topics: []string{"t"}, Handler: func(own context.Context, _ *linger.Job) error {
		cancel()
		_, hasDeadline := own.Deadline()
		say(object{"value": own.Value(key{}), "deadline": hasDeadline, "ended": own.Err() != nil})
		return nil
	}}
	check(worker.Run(ctx))
}
