package main

// The cases that change jobs: many at once, and by patches.

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/example-org/linger/clients/go/linger"
)

// many makes each call of the holder of many jobs. The last one comes when they are in other hands.
func many(ctx context.Context) {
	codes := func(results []*linger.RefusedError, err error) []string {
		check(err)
		var codes []string
		for _, result := range results {
			code := "done"
			if result != nil {
				code = result.Code
			}
			codes = append(codes, code)
		}
		return codes
	}
	jobs, err := client.Pop(ctx, linger.Poll{Topics: []string{"t"}, Max: 3, Wait: 20 * time.Second})
	check(err)
	stale := &linger.Job{ID: jobs[0].ID, Receipt: strings.Repeat("0", 32)}
	say(object{"touched": codes(client.TouchMany(ctx, []*linger.Job{jobs[0], jobs[1], jobs[2], stale}, time.Hour))})
	line()
	later, in2100 := time.Hour, time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
	say(object{"buried": codes(client.BuryMany(ctx, jobs[:1], "no such order"))})
	say(object{"released": codes(client.ReleaseMany(ctx, jobs[1:2], &later, "later"))})
	say(object{"released": codes(client.ReleaseManyAt(ctx, jobs[2:], in2100, "in 2100"))})
	say(object{"late": codes(client.ReleaseMany(ctx, jobs, nil, ""))})
}

// patches changes each field of a job, and then the due time alone.
func patches(ctx context.Context) {
	in2100, now := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), time.Duration(0)
	for _, changes := range []linger.JobPatch{
		{
			At: in2100, TTR: 90500 * time.Millisecond, MaxAttempts: 3, Retry: []time.Duration{time.Minute, 2 * time.Minute},
			Body: json.RawMessage(`{"n": 1e400}`),
		},
		{Expire: 3600500 * time.Millisecond, OnExpiry: "delete"},
		{ClearExpire: true, Body: json.RawMessage("null")},
		{Delay: &now, MaxAttempts: linger.NoLimit, Retry: []time.Duration{}},
	} {
		job, err := client.Patch(ctx, "a", changes)
		check(err)
		var expires any
		if !job.ExpiresAt.IsZero() {
			expires = job.ExpiresAt.Sub(job.DueAt).Seconds()
		}
		say(object{
			"state": job.State, "ttr": job.TTR.Seconds(), "max_attempts": job.MaxAttempts, "body": string(job.Body),
			"expires": expires, "at": job.DueAt.Equal(in2100),
		})
	}
	_, err := client.Patch(ctx, "a", linger.JobPatch{})
	say(object{"code": linger.Code(err)})
}
