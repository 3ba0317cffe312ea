package main

// The cases about adds that replace jobs, and about jobs that have ended.

import (
	"context"
	"encoding/json"
	"errors"
	"sort"
	"strconv"
	"time"

	"github.com/example-org/linger/clients/go/linger"
)

func show(job *linger.Job) object {
	return object{
		"id": job.ID, "body": job.Body, "revision": job.Revision, "replayed": job.Replayed, "replaced": job.Replaced,
	}
}

// refusal is the code of a refusal, and the revision that it names.
func refusal(err error) any {
	var refused *linger.RefusedError
	var unanswered *linger.NoAnswerError
	switch {
	case errors.As(err, &refused):
		var revision any
		if refused.Code == "stale_revision" {
			revision = refused.Revision
		}
		return object{"code": refused.Code, "revision": revision}
	case errors.As(err, &unanswered):
		return object{"no_answer": true}
	}
	check(err)
	return nil
}

func revision(number int64) *int64 { return &number }

// versions adds versions of a job, one by one and in a batch.
func versions(ctx context.Context) {
	for _, version := range []struct {
		revision *int64
		body     string
	}{{revision(5), "first"}, {revision(5), "again"}, {revision(4), "late"}, {revision(6), "second"}, {nil, "third"}} {
		job, err := client.Add(ctx, linger.NewJob{
			Topic: "t", ID: "a", Body: version.body, IfExists: "replace", Revision: version.revision,
		})
		if err != nil {
			say(refusal(err).(object))
			continue
		}
		say(show(job))
	}
	job, err := client.Get(ctx, "a")
	check(err)
	say(object{"got": job.Revision})
	_, err = client.Add(ctx, linger.NewJob{Topic: "t", IfExists: "replace"})
	var refused *linger.RefusedError
	errors.As(err, &refused)
	say(object{"unnamed": refused.Code, "detail": refused.Detail})
	added, err := client.AddMany(ctx, []linger.NewJob{
		{Topic: "t", ID: "a", IfExists: "replace", Revision: revision(7)},
		{Topic: "t", ID: "b", IfExists: "replace", Revision: revision(0)},
		{Topic: "t", ID: "a", IfExists: "replace", Revision: revision(7)},
		{Topic: "t", ID: "a", IfExists: "replace", Revision: revision(3)},
	})
	check(err)
	sayAdded(added)
}

func sayAdded(added []linger.Added) {
	for _, added := range added {
		var failed any
		if added.Err != nil {
			failed = refusal(added.Err)
		}
		say(object{"id": added.ID, "replayed": added.Replayed, "replaced": added.Replaced, "error": failed})
	}
}

// replaceOnce replaces the job `a` alone, or in a batch with another add.
func replaceOnce(ctx context.Context, number, way string) {
	job := linger.NewJob{Topic: "t", ID: "a", Body: 1, IfExists: "replace"}
	if number != "" {
		number, err := strconv.ParseInt(number, 10, 64)
		check(err)
		job.Revision = &number
	}
	if way == "batch" {
		added, err := client.AddMany(ctx, []linger.NewJob{{Topic: "t", ID: "b"}, job})
		if err != nil {
			say(object{"failed": refusal(err)})
		}
		sayAdded(added)
		return
	}
	added, err := client.Add(ctx, job)
	if err != nil {
		say(object{"failed": refusal(err)})
		return
	}
	say(show(added))
}

// holder makes each call of the holder of jobs that were replaced meanwhile.
func holder(ctx context.Context) {
	code := func(err error) string {
		if err == nil {
			return "done"
		}
		return linger.Code(err)
	}
	codes := func(refused []*linger.RefusedError, err error) (codes []string) {
		check(err)
		for _, refused := range refused {
			if refused == nil {
				codes = append(codes, "done")
			} else {
				codes = append(codes, refused.Code)
			}
		}
		return codes
	}
	jobs, err := client.Pop(ctx, linger.Poll{Topics: []string{"t"}, Max: 4, Wait: 20 * time.Second})
	check(err)
	sort.Slice(jobs, func(i, j int) bool { return jobs[i].ID < jobs[j].ID })
	a, b, c, d := jobs[0], jobs[1], jobs[2], jobs[3]
	say(object{"popped": []string{a.ID, b.ID, c.ID, d.ID}})
	line()
	for _, code := range codes(client.TouchMany(ctx, jobs, 0)) {
		say(object{"touched": code})
	}
	say(object{
		"touch": code(client.Touch(ctx, a.ID, a.Receipt, 0)), "finish": code(client.Finish(ctx, a.ID, a.Receipt)),
		"release": code(client.Release(ctx, b.ID, b.Receipt, nil, "")), "bury": code(client.Bury(ctx, c.ID, c.Receipt, "")),
		"many": codes(client.ReleaseMany(ctx, jobs[3:], nil, "")),
	})
}

// ended adds a job that was finished, alone and in a batch, and one that was deleted.
func ended(ctx context.Context) {
	job, err := client.Add(ctx, linger.NewJob{Topic: "t", ID: "a", Body: 1})
	check(err)
	var body any
	if job.Body != nil {
		check(json.Unmarshal(job.Body, &body))
	}
	say(object{
		"id": job.ID, "topic": job.Topic, "state": job.State, "replayed": job.Replayed, "replaced": job.Replaced,
		"attempts": job.Attempts, "ttr": job.TTR, "has_due": !job.DueAt.IsZero(), "body": body, "raw": string(job.Body),
		"how": job.Ended.How, "at": job.Ended.At.Format("2006-01-02T15:04:05.000Z"),
	})
	all, err := client.AddMany(ctx, []linger.NewJob{{Topic: "t", ID: "a"}})
	check(err)
	added := all[0]
	sameEnd := added.Ended.How == job.Ended.How && added.Ended.At.Equal(job.Ended.At)
	say(object{"id": added.ID, "replayed": added.Replayed, "same_end": sameEnd, "error": added.Err})
	_, err = client.Add(ctx, linger.NewJob{Topic: "t", ID: "b"})
	say(object{"code": linger.Code(err)})
}
