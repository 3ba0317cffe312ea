package main

// The cases about schedules.

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/example-org/linger/clients/go/linger"
)

// moment is the text of a time; nil if there is none.
func moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

func moments(times []time.Time) (texts []any) {
	for _, t := range times {
		texts = append(texts, moment(t))
	}
	return texts
}

func sayPut(schedule *linger.Schedule, err error) {
	check(err)
	say(object{"created": schedule.Created, "revision": schedule.Revision, "state": schedule.State})
}

func whole(schedule *linger.Schedule) object {
	return object{
		"name": schedule.Name, "cron": schedule.Cron, "time_zone": schedule.TimeZone, "every": schedule.Every.Seconds(),
		"start": moment(schedule.Start), "end": moment(schedule.End), "jitter": schedule.Jitter.Seconds(),
		"overlap": schedule.Overlap, "missed": schedule.Missed, "missed_within": schedule.MissedWithin.Seconds(),
		"job": string(schedule.Job), "next": moments(schedule.Next), "last": moment(schedule.Last),
		"fired": schedule.Runs.Fired, "waiting": schedule.Waiting.Reason, "waiting_since": moment(schedule.Waiting.Since),
		"last_job": schedule.LastJob,
	}
}

// schedules makes each call about a schedule.
func schedules(ctx context.Context) {
	const name = "nightly:report"
	job := linger.NewJob{
		Topic: "reports", Body: json.RawMessage(`{"n":  1e400}`), TTR: 10 * time.Minute, Retry: []time.Duration{time.Minute},
	}
	begin := time.Date(2099, 3, 28, 0, 0, 0, 0, time.UTC)
	rule := linger.NewSchedule{
		Cron: "30 2 * * *", TimeZone: "Europe/Berlin", Start: begin, End: begin.AddDate(0, 3, 0), Jitter: 5 * time.Minute,
		Overlap: "allow", Missed: "all", MissedWithin: time.Hour, Job: job,
	}
	_, err := client.GetSchedule(ctx, name)
	say(object{"missing": linger.Code(err) == "schedule_not_found"})
	sayPut(client.PutSchedule(ctx, name, rule))
	sayPut(client.PutSchedule(ctx, name, rule))
	found, err := client.GetSchedule(ctx, name)
	check(err)
	say(whole(found))
	rule.RawJob = found.Job
	sayPut(client.PutScheduleIf(ctx, name, 1, rule))
	other := linger.NewSchedule{Every: 90500 * time.Millisecond, Start: begin, Job: job}
	_, err = client.PutScheduleIf(ctx, name, 7, other)
	_, none := client.PutScheduleIf(ctx, name, 0, other)
	say(object{"other": linger.Code(err), "none": linger.Code(none)})
	sayPut(client.PutScheduleIf(ctx, name, 1, other))
	found, err = client.GetSchedule(ctx, name)
	check(err)
	say(object{"cron": found.Cron, "every": found.Every.Seconds(), "jitter": found.Jitter.Seconds()})
	two, err := client.NextRuns(ctx, name, 2)
	check(err)
	ten, err := client.NextRuns(ctx, name, 0)
	check(err)
	say(object{"next": moments(two), "ten": len(ten)})
	sayPut(client.PauseSchedule(ctx, name))
	sayPut(client.ResumeSchedule(ctx, name))
	for range []int{1, 2} {
		run, err := client.RunSchedule(ctx, name, "incident-7")
		check(err)
		say(object{"id": run.ID, "state": run.State, "replayed": run.Replayed, "body": string(run.Body)})
	}
	first, err := client.RunSchedule(ctx, name, "")
	check(err)
	second, err := client.RunSchedule(ctx, name, "")
	check(err)
	isRun := func(id string) bool { return strings.HasPrefix(id, "run:nightly:report:") }
	say(object{"generated": []bool{isRun(first.ID), isRun(second.ID)}, "differ": first.ID != second.ID})
	line()
	endSchedules(ctx, name)
}

// endSchedules shows a schedule that waits, deletes the other one and makes calls that are refused.
func endSchedules(ctx context.Context, name string) {
	waiting, err := client.GetSchedule(ctx, "waiting")
	check(err)
	say(object{
		"waiting": waiting.Waiting.Reason, "since": !waiting.Waiting.Since.IsZero(), "last": !waiting.Last.IsZero(),
	})
	deleted, err := client.DeleteSchedule(ctx, name)
	check(err)
	again, err := client.DeleteSchedule(ctx, name)
	check(err)
	say(object{"deleted": []bool{deleted, again}})
	_, refused := client.PutSchedule(ctx, "a", linger.NewSchedule{Cron: "61 * * * *", Job: linger.NewJob{Topic: "reports"}})
	_, gone := client.PauseSchedule(ctx, "none")
	say(object{"refused": linger.Code(refused), "gone": linger.Code(gone)})
	_, err = client.GetSchedule(ctx, "..")
	say(object{"folder": err.Error()})
}

// schedulesAgain makes the calls that change something, each of which loses its first answer.
func schedulesAgain(ctx context.Context) {
	schedule := linger.NewSchedule{Cron: "@daily", Job: linger.NewJob{Topic: "reports"}}
	put, err := client.PutSchedule(ctx, "a", schedule)
	check(err)
	say(object{"put": put.Created})
	paused, err := client.PauseSchedule(ctx, "a")
	check(err)
	say(object{"paused": paused.State})
	resumed, err := client.ResumeSchedule(ctx, "a")
	check(err)
	say(object{"resumed": resumed.State})
	named, err := client.RunSchedule(ctx, "a", "1")
	check(err)
	unnamed, err := client.RunSchedule(ctx, "a", "")
	check(err)
	say(object{"runs": []bool{named.Replayed, unnamed.Replayed}})
	schedule.Cron = "@hourly"
	_, err = client.PutScheduleIf(ctx, "a", 3, schedule)
	var refused *linger.RefusedError
	if errors.As(err, &refused) {
		say(object{"code": refused.Code, "repeated": refused.Repeated})
	}
	deleted, err := client.DeleteSchedule(ctx, "a")
	check(err)
	say(object{"deleted": deleted})
}

// listSchedules lists all schedules, and waits for a line behind the first.
func listSchedules(ctx context.Context) {
	isFirst := true
	client.Schedules(ctx)(func(schedule *linger.Schedule, err error) bool {
		if err != nil {
			say(object{"code": linger.Code(err)})
			return true
		}
		say(object{"name": schedule.Name})
		if isFirst {
			line()
		}
		isFirst = false
		return true
	})
}
